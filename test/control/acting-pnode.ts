// A PNode that only acts: it attaches, beats, takes assignments, and reports steps as if it had computed them.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { addressOf } from "../../simulation/boot.ts";
import type { SimulatedBlobs } from "../../simulation/world/blobs.ts";
import type { SimulatedNetwork } from "../../simulation/world/network.ts";
import type { Host } from "../../simulation/world/world.ts";
import { answerBits, bits } from "../../src/core/bits.ts";
import { DcnrError, fail } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import type { Tensor } from "../../src/core/tensor.ts";
import { sleep } from "../../src/core/world.ts";
import {
  type Assignment,
  type AttachRequestSchema,
  type AttachResponse,
  PNodeService,
  type RegisterSchema,
  type SessionIdentity,
  type SessionUpdate,
  type TrainingWork,
  type VNodeProgressSchema,
} from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import { type Channel, type ServedService, service } from "../../src/protocol/network.ts";
import { type MemoryState, memoryState } from "../../src/states/in-memory.ts";

export interface ActingOptions {
  readonly orchestrators: readonly string[];
  readonly register: Partial<RegisterInit>;
  /** The key that it shows, if not its own: then it is another machine. */
  readonly key: string;
  readonly heartbeatMs: number;
  /** Milliseconds of one step; 0: reports nothing. */
  readonly stepMs: number;
  /** Attaches again after a broken stream. */
  readonly persistent: boolean;
  /** What a validation after so many steps comes to; with it, sessions have the steps they ask for. */
  readonly measure: ((identity: SessionIdentity, step: number) => number) | undefined;
  /** What the models that it serves say, one token after each `stepMs`; without it nobody can ask them. */
  readonly answer: ((prompt: readonly number[]) => readonly number[]) | undefined;
  /** Makes a state differ from what others compute. */
  readonly lie: (vnode: string, step: number) => boolean;
}

type RegisterInit = Exclude<MessageInitShape<typeof RegisterSchema>, { readonly $typeName: "dcnr.v1.Register" }>;

interface Hosted {
  assignment: Assignment;
  /** How its session is to be run, once it was asked; only with `measure`. */
  training?: TrainingWork;
  step: number;
  checkpointed: number;
}

const answering = service(SystemService, { getVersion: async () => ({}), getHealth: async () => ({}) });

type Up = MessageInitShape<typeof AttachRequestSchema>;

export class ActingPNode {
  readonly host: Host;
  readonly id: string;
  readonly incarnation: string;
  readonly hosted = new Map<string, Hosted>();
  readonly sessions = new Map<string, SessionUpdate>();
  /** What it was told to load ahead. */
  readonly prepared: Assignment[] = [];
  readonly errors: DcnrError[] = [];
  refusedDurables = 0;
  attachedTo = "";
  leaveGranted = false;
  /** As its owner's hours say. */
  accepting = true;
  /** Whom it calls in vain, and for how long it has. */
  unanswered: Readonly<Record<string, number>> = {};
  /** What its VNodes wait for instead of computing. */
  waitingFor = "";
  failing: { vnode: string; detail: string; damagedState?: string } | undefined;
  /** Measured, and not told yet: they are lost with it. */
  #metrics: { name: string; step: bigint; value: number; vnode: string; session: string }[] = [];
  readonly #network: SimulatedNetwork;
  readonly #blobs: SimulatedBlobs;
  readonly #options: ActingOptions;
  #channel: Channel<Up, AttachResponse> | undefined;
  #ended = false;

  constructor(host: Host, network: SimulatedNetwork, blobs: SimulatedBlobs, options: Partial<ActingOptions>) {
    this.host = host;
    this.id = options.key ?? host.name;
    this.incarnation = `${host.name}.${host.incarnation}`;
    this.#network = network;
    this.#blobs = blobs;
    this.#options = {
      orchestrators: [],
      register: {},
      key: host.name,
      heartbeatMs: 1_000,
      stepMs: 0,
      persistent: true,
      lie: () => false,
      measure: undefined,
      answer: undefined,
      ...options,
    };
    void this.#run();
    if (this.#options.stepMs > 0) void this.#act();
  }

  /** As a process that is killed. */
  kill(silent = false): void {
    this.#ended = true;
    this.host.crash(silent);
  }

  /** Breaks the stream; it attaches again. */
  breakStream(): void {
    this.#channel?.close();
  }

  /** Breaks the stream and stays away. */
  detach(): void {
    this.#ended = true;
    this.#channel?.close();
  }

  async leave(): Promise<void> {
    await this.#channel?.send({ event: { case: "leave", value: { reason: "the test says so" } } });
  }

  async send(message: Up): Promise<void> {
    await this.#channel?.send(message);
  }

  async #run(): Promise<void> {
    // Orchestrators call back before they give it work; a copy of a machine has no port of its own.
    const { answer } = this.#options;
    const services = answer ? [answering, this.#serving(answer)] : [answering];
    await this.#network.serve(`${this.id}.test:7400`, services).catch(() => {});
    for (let attempt = 0; !this.#ended; attempt++) {
      const address = this.#options.orchestrators[attempt % this.#options.orchestrators.length] as string;
      try {
        await this.#attach(address);
      } catch (thrown) {
        this.errors.push(DcnrError.from(thrown));
      }
      this.attachedTo = "";
      if (!this.#options.persistent) return;
      await sleep(this.host.world.timers, 100 + 50 * this.host.world.chance.uniform());
    }
  }

  #serving(answer: NonNullable<ActingOptions["answer"]>): ServedService {
    const nobodyAsks = () => fail("unimplemented", "PNodes that act only answer");
    const isHeadOf = (replica: string) =>
      Array.from(this.hosted.values()).some(({ assignment }) => assignment.session === replica);
    const { stepMs } = this.#options;
    const { timers } = this.host.world;
    return service(ServingService, {
      async *generateTokens({ session, prompt, sent, maxTokens }) {
        const tokens = answer(prompt).slice(0, maxTokens);
        for (let told = sent.length; told <= tokens.length; told++) {
          await sleep(timers, stepMs);
          if (!isHeadOf(session)) fail("unavailable", `${session} is not hosted here`);
          yield { tokens: tokens.slice(told, told + 1), finish: told === tokens.length ? "stop" : "" };
        }
      },
      embedTokens: nobodyAsks,
      forwardTensors: nobodyAsks,
      tellRows: nobodyAsks,
      checkAnswer: nobodyAsks,
    });
  }

  async #attach(address: string): Promise<void> {
    const channel = this.#network.open(address, PNodeService.method.attach);
    this.#channel = channel;
    await channel.send({ event: { case: "register", value: this.#register() } });
    void this.#beat(channel);
    for await (const { event } of channel.incoming) {
      if (event.case === "registered") this.attachedTo = event.value.orchestrator;
      if (event.case === "assignments") this.#assign(event.value.assignments);
      if (event.case === "prepare") this.prepared.push(...event.value.assignments);
      if (event.case === "session") this.sessions.set(event.value.session, event.value);
      if (event.case === "leaveGranted") this.leaveGranted = true;
    }
  }

  #register(): RegisterInit {
    const { capabilities, ...register } = this.#options.register;
    return {
      protocolMajor: 1,
      bits,
      answerBits,
      name: this.id,
      incarnation: this.incarnation,
      routes: [`${this.id}.test:7400`],
      owner: this.id,
      hosted: Array.from(this.hosted.values(), ({ assignment: { session, vnode, epoch } }) => ({
        session,
        vnode,
        epoch,
      })),
      closed: !this.accepting,
      ...register,
      capabilities: {
        cores: 4,
        memoryBytes: 8n << 30n,
        // So slow that even tiny VNodes are worth spreading.
        gflops: 0.00001,
        architecture: "x64",
        numerics: [{ engine: "reference", class: "reference" }],
        ...capabilities,
      },
    };
  }

  async #beat(channel: Channel<Up, AttachResponse>): Promise<void> {
    try {
      for (let sequence = 1n; !this.#ended && this.#channel === channel; sequence++) {
        await sleep(this.host.world.timers, this.#options.heartbeatMs);
        await channel.send({
          event: {
            case: "heartbeat",
            value: {
              sequence,
              accepting: this.accepting,
              vnodes: this.#progress(),
              metrics: this.#metrics.splice(0),
              links: Object.entries(this.unanswered).map(([pnode, failingMs]) => ({ pnode, failingMs })),
            },
          },
        });
      }
    } catch {
      // The stream broke; #run deals with it.
    }
  }

  #progress(): MessageInitShape<typeof VNodeProgressSchema>[] {
    return Array.from(this.hosted.values(), ({ assignment, step }) => {
      const { session, vnode, epoch, work } = assignment;
      const failed = this.failing?.vnode === vnode;
      const learning = this.waitingFor === "" ? "computing" : "waiting";
      return {
        session,
        vnode,
        epoch,
        step: BigInt(step),
        phase: failed ? "failed" : work.case === "answering" ? "serving" : learning,
        detail: failed ? (this.failing?.detail ?? "") : this.#waitDetail(),
        damagedState: failed ? (this.failing?.damagedState ?? "") : "",
      };
    });
  }

  #waitDetail(): string {
    return this.waitingFor && `${this.waitingFor} since ${(this.host.world.clock.monotonicMs() / 1000).toFixed(1)} s`;
  }

  #assign(assignments: readonly Assignment[]): void {
    const wanted = new Set<string>();
    for (const assignment of assignments) {
      const name = `${assignment.session}/${assignment.vnode}`;
      wanted.add(name);
      const known = this.hosted.get(name);
      const goesOn = known && assignment.since <= known.assignment.epoch;
      const line = startOf(assignment);
      if (goesOn) known.assignment = assignment;
      else this.hosted.set(name, { assignment, step: line, checkpointed: line });
    }
    for (const name of this.hosted.keys()) if (!wanted.has(name)) this.hosted.delete(name);
  }

  /** One step of every hosted VNode that learns at a time, with a checkpoint every other step and at the end. */
  async #act(): Promise<void> {
    while (!this.#ended) {
      await sleep(this.host.world.timers, this.#options.stepMs);
      for (const hosted of Array.from(this.hosted.values())) {
        const { vnode, work } = hosted.assignment;
        if (this.failing?.vnode === vnode || work.case !== "learning") continue;
        const isDone = this.sessions.get(hosted.assignment.session)?.status === "done";
        const { steps, restAfter } = await this.#schedule(hosted);
        if (hosted.step < (isDone ? 0 : steps) && hosted.step <= restAfter) {
          this.#measure(hosted);
          hosted.step++;
          if (hosted.step === steps) {
            this.#measure(hosted);
            // As a PNode does before its last checkpoint.
            await this.#tell();
          }
        }
        if ((hosted.step % 2 === 0 || hosted.step === steps) && hosted.step > hosted.checkpointed)
          await this.record(hosted.assignment, hosted.step, hosted);
      }
    }
  }

  async #schedule(hosted: Hosted): Promise<{ steps: number; restAfter: number }> {
    const everything = Number.POSITIVE_INFINITY;
    if (!this.#options.measure) return { steps: 20, restAfter: everything };
    try {
      hosted.training ??= await this.#describe(hosted.assignment.session);
    } catch {
      return { steps: 0, restAfter: 0 };
    }
    return {
      steps: Number(hosted.training?.identity?.steps ?? 0n),
      restAfter: hosted.training?.restAfter || everything,
    };
  }

  async #describe(session: string): Promise<TrainingWork | undefined> {
    const address = this.attachedTo === "" ? this.#options.orchestrators[0] : addressOf(this.attachedTo);
    const { work } = await this.#network.call(address as string, PNodeService.method.describeSession, { session });
    return work.case === "training" ? work.value : undefined;
  }

  /** Before every so many steps and after the last, as one VNode does for all. */
  #measure({ assignment: { session, vnode }, training, step }: Hosted): void {
    const { identity } = training ?? {};
    if (!identity || !this.#options.measure || step === 0) return;
    if (step % identity.validateEvery !== 0 && step !== Number(identity.steps)) return;
    const value = this.#options.measure(identity, step);
    this.#metrics.push({ name: "validation_loss", step: BigInt(step), value, vnode, session });
  }

  async #tell(): Promise<void> {
    await this.#channel
      ?.send({
        event: {
          case: "heartbeat",
          value: { accepting: this.accepting, vnodes: this.#progress(), metrics: this.#metrics.splice(0) },
        },
      })
      .catch(() => {});
  }

  /** Uploads and records as a PNode would, under the epoch it knows. */
  async record(assignment: Assignment, step: number, hosted?: Hosted): Promise<boolean | undefined> {
    const { session, vnode, epoch } = assignment;
    const { state, manifest, blobs } = await actedState(session, vnode, step, this.#options.lie(vnode, step));
    for (const [hash, content] of blobs) await this.#blobs.inner.states.put(hash, content, content.byteLength);
    const from = hosted?.checkpointed ?? step - 1;
    const steps = Array.from({ length: step - from }, (_, i) => ({
      step: BigInt(from + 1 + i),
      hash: sha256(`hash of ${vnode} after ${from + 1 + i}`),
    }));
    for (const address of this.#options.orchestrators) {
      try {
        const { accepted } = await this.#network.call(
          address,
          PNodeService.method.recordDurable,
          {
            session,
            vnode,
            epoch,
            step: BigInt(step),
            state,
            stateBytes: BigInt(manifest.bytes),
            steps,
            turn: assignment.work.case === "learning" ? assignment.work.value.turn : 0n,
          },
          { timeoutMs: 2_000 },
        );
        if (!accepted) this.refusedDurables++;
        else if (hosted) hosted.checkpointed = step;
        return accepted;
      } catch (thrown) {
        this.errors.push(DcnrError.from(thrown));
        if (DcnrError.from(thrown).code === "aborted") return undefined;
      }
    }
    return undefined;
  }
}

/** The state that acting PNodes store: nothing was computed, but every step of every VNode has one of its own. */
export function actedState(session: string, vnode: string, step: number, lie = false): Promise<MemoryState> {
  const text = new TextEncoder().encode(`${session}/${vnode}/${step}${lie ? " but not quite" : ""}`);
  const tensors = new Map<string, Tensor>([["weights", { dtype: "uint8", shape: [text.byteLength], data: text }]]);
  return memoryState({ metadata: { vnode, step: String(step) }, tensors });
}

/** The step that a VNode starts from. */
export function startOf({ work }: Assignment): number {
  return work.case === "learning" ? Number(work.value.line) : 0;
}
