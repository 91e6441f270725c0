// An orchestrator that fits on a page, for the tests of this folder.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../core/errors.ts";
import {
  type AssignmentSchema,
  type AttachRequest,
  type AttachResponseSchema,
  type DescribeSessionResponseSchema,
  type Heartbeat,
  type Measurement,
  PNodeService,
  type RecordDurableRequest,
} from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import { type Channel, type ServedService, service } from "../protocol/network.ts";
import type { BlobTransfer } from "./options.ts";

type Down = MessageInitShape<typeof AttachResponseSchema>;
type Described = Exclude<MessageInitShape<typeof DescribeSessionResponseSchema>, { readonly $typeName: string }>;
type Work = NonNullable<Described["work"]>;

export interface TestAssignment {
  readonly vnode: string;
  readonly pnode: string;
  epoch: number;
  /** The epoch in which the PNode became an owner, if not this one: other replicas came or went since. */
  since?: number;
}

/** Knows one session, does as it is told, and remembers what it hears. */
export class TestOrchestrator {
  readonly blobs: Map<string, Uint8Array>;
  readonly session: string;
  readonly definition: string;
  readonly work: Work;
  readonly placed: TestAssignment[] = [];
  readonly heartbeats: Heartbeat[] = [];
  /** How often somebody asked what the session is. */
  described = 0;
  readonly measurements: Measurement[] = [];
  readonly registrations: string[] = [];
  /** By `vnode/step`. */
  readonly hashes = new Map<string, string>();
  readonly durable = new Map<string, Map<number, string>>();
  readonly evidence: unknown[] = [];
  readonly #attached = new Map<string, (message: Down) => void>();
  readonly #routes = new Map<string, string[]>();
  refused = 0;
  line = 0;

  constructor(session: { id: string; definition: string; work: Work }, blobs: Map<string, Uint8Array>) {
    this.session = session.id;
    this.definition = session.definition;
    this.work = session.work;
    this.blobs = blobs;
  }

  place(vnode: string, pnode: string): void {
    const known = this.placed.findIndex((placed) => placed.vnode === vnode);
    const epoch = known < 0 ? 1 : (this.placed.splice(known, 1)[0] as TestAssignment).epoch + 1;
    this.placed.push({ vnode, pnode, epoch });
    this.tell();
  }

  tell(): void {
    for (const [pnode, send] of this.#attached) {
      send({ event: { case: "assignments", value: { revision: 1n, assignments: this.#assignments(pnode) } } });
      const update = { session: this.session, status: "running", line: BigInt(this.line), revision: 1n };
      send({ event: { case: "session", value: { ...update, locations: this.#locations() } } });
    }
  }

  /** Lets a PNode load ahead what it may be given. */
  prepare(vnodes: readonly string[], pnode: string): void {
    const assignments = vnodes.map((vnode) => this.#start(vnode));
    this.#attached.get(pnode)?.({ event: { case: "prepare", value: { assignments } } });
  }

  /** Lets a PNode know what it may have to take over. */
  standBy(vnodes: readonly string[], pnode: string): void {
    const sessions = vnodes.length === 0 ? [] : [{ session: this.session, vnodes: [...vnodes] }];
    this.#attached.get(pnode)?.({ event: { case: "standBy", value: { sessions } } });
  }

  /** Lets all PNodes know that these wait for each other. */
  circle(vnodes: readonly string[]): void {
    const value = { session: this.session, vnodes: [...vnodes] };
    for (const send of this.#attached.values()) send({ event: { case: "circle", value } });
  }

  #assignments(pnode: string) {
    return this.placed
      .filter((placed) => placed.pnode === pnode)
      .map(({ vnode, epoch, since = epoch }) => ({
        ...this.#start(vnode),
        epoch: BigInt(epoch),
        since: BigInt(since),
      }));
  }

  #start(vnode: string) {
    const state = this.durable.get(vnode)?.get(this.line) ?? "";
    return { session: this.session, vnode, work: this.#workOf(state) };
  }

  #workOf(state: string): NonNullable<MessageInitShape<typeof AssignmentSchema>["work"]> {
    if (this.work.case === "serving") return { case: "answering", value: {} };
    return { case: "learning", value: { line: BigInt(this.line), state } };
  }

  #locations() {
    return this.placed.map(({ vnode, pnode, epoch }) => {
      return { vnode, pnode, epoch: BigInt(epoch), routes: this.#routes.get(pnode) ?? [] };
    });
  }

  service(): ServedService {
    return service(PNodeService, {
      attach: (channel, { caller }) => this.#attach(channel, caller.id ?? ""),
      pulse: async (channel) => {
        for await (const _ of channel.incoming) await channel.send({});
      },
      resolve: async () => ({ locations: this.#locations(), line: BigInt(this.line), revision: 1n }),
      recordDurable: async (request, { caller }) => this.#record(request, caller.id ?? ""),
      grantBlob: async ({ hash }) => ({
        url: `${blobOrigin}/${hash}`,
        present: this.blobs.has(hash),
        bytes: BigInt(this.blobs.get(hash)?.byteLength ?? 0),
      }),
      measureLine: async () => ({}),
      describeSession: async () => {
        this.described++;
        return { session: this.session, definition: this.definition, work: this.work };
      },
    });
  }

  async #attach(channel: Channel<Down, AttachRequest>, pnode: string): Promise<void> {
    for await (const { event } of channel.incoming) {
      if (event.case === "register") {
        this.registrations.push(pnode);
        this.#routes.set(pnode, event.value.routes);
        const send = (message: Down) => void channel.send(message).catch(() => {});
        this.#attached.set(pnode, send);
        send({
          event: {
            case: "registered",
            value: { orchestrator: "test", heartbeatIntervalMs: 100, blobOrigins: [blobOrigin] },
          },
        });
        this.tell();
      }
      if (event.case === "heartbeat") {
        this.heartbeats.push(event.value);
        await channel.send({ event: { case: "heartbeatAck", value: { sequence: event.value.sequence } } });
      }
      if (event.case === "measurement") this.measurements.push(event.value);
      if (event.case === "evidence") this.evidence.push(event.value);
      if (event.case === "leave") await channel.send({ event: { case: "leaveGranted", value: {} } });
    }
    this.#attached.delete(pnode);
  }

  #record(request: RecordDurableRequest, pnode: string) {
    const owner = this.placed.find(({ vnode }) => vnode === request.vnode);
    if (owner?.pnode !== pnode || BigInt(owner.epoch) !== request.epoch) {
      this.refused++;
      return { accepted: false, line: BigInt(this.line) };
    }
    if (!this.blobs.has(request.state)) fail("aborted", "the state was not uploaded");
    const durable = this.durable.get(request.vnode) ?? new Map<number, string>();
    this.durable.set(request.vnode, durable.set(Number(request.step), request.state));
    for (const { step, hash } of request.steps) this.hashes.set(`${request.vnode}/${step}`, hash);
    const vnodes = [...new Set(this.placed.map(({ vnode }) => vnode))];
    const common = [...durable.keys()].filter((step) => vnodes.every((vnode) => this.durable.get(vnode)?.has(step)));
    const line = Math.max(this.line, ...common);
    if (line > this.line) {
      this.line = line;
      this.tell();
    }
    return { accepted: true, line: BigInt(this.line) };
  }
}

const blobOrigin = "http://blobs.invalid";

export function memoryTransfer(blobs: Map<string, Uint8Array>): BlobTransfer {
  const nameOf = (url: string) => url.slice(blobOrigin.length + 1);
  return {
    upload: async ({ url }, content) => void blobs.set(nameOf(url), content.slice()),
    download: async ({ url }, into) =>
      into.set(blobs.get(nameOf(url)) ?? fail("not_found", `there is no blob ${nameOf(url)}`)),
  };
}
