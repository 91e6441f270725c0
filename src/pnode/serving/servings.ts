// All VNodes of this PNode that answer, and the service through which orchestrators and peers reach them.

import { fail, messageOf } from "../../core/errors.ts";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { Tensor } from "../../core/tensor.ts";
import { type World, withFields } from "../../core/world.ts";
import type { EngineKind, Executor } from "../../engine/engine.ts";
import { contextOf } from "../../network/generation.ts";
import { ServingService } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { type Network, type ServedService, service } from "../../protocol/network.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import { type Assignment, hostKey } from "../assignment.ts";
import type { BlobClient } from "../blob-client.ts";
import type { Orchestrators } from "../orchestrators.ts";
import type { Resolver } from "../resolver.ts";
import type { Tasks } from "../tasks.ts";
import { Conductor } from "./conductor.ts";
import { Forwards } from "./forwards.ts";
import type { Pass, PassTarget } from "./pass.ts";
import { PassLink } from "./pass-link.ts";
import { receivePasses } from "./pass-receiver.ts";
import { ServingContext } from "./serving-context.ts";
import { ServingVNode } from "./serving-vnode.ts";

export interface ServingsOptions {
  readonly pnode: string;
  readonly world: World;
  readonly network: Network;
  readonly tasks: Tasks;
  readonly resolver: Resolver;
  readonly orchestrators: Orchestrators;
  readonly blobs: BlobClient;
  readonly executorFor: (engine: EngineKind) => Promise<Executor>;
  readonly signal: AbortSignal;
}

interface Served {
  readonly context: Promise<ServingContext>;
  readonly vnodes: Map<VNodeId, ServingVNode>;
  conductor: Conductor | undefined;
  readonly forwards: Forwards;
}

export class Servings {
  readonly #options: ServingsOptions;
  readonly #sessions = new Map<SessionId, Served>();
  readonly #links = new Map<string, PassLink>();

  constructor(options: ServingsOptions) {
    this.#options = options;
  }

  /** The whole list of what is to be served here. */
  reconcile(assignments: readonly Assignment[]): void {
    const wanted = new Map(
      assignments.map((assignment) => [hostKey(assignment.session, assignment.vnode), assignment]),
    );
    for (const [session, served] of this.#sessions) {
      for (const [vnode, host] of served.vnodes) {
        const assignment = wanted.get(hostKey(session, vnode));
        if (assignment && assignment.since <= host.assignment.epoch) wanted.delete(hostKey(session, vnode));
        else this.#drop(served, vnode, host);
      }
      if (served.vnodes.size === 0 && !assignments.some((assignment) => assignment.session === session)) {
        served.conductor?.close();
        this.#sessions.delete(session);
      }
    }
    for (const assignment of wanted.values()) this.#host(assignment);
  }

  #drop(served: Served, vnode: VNodeId, host: ServingVNode): void {
    served.vnodes.delete(vnode);
    served.conductor?.close();
    served.conductor = undefined;
    this.#options.tasks.run(`stop serving ${vnode}`, () => host.stop());
  }

  #host(assignment: Assignment): void {
    const { session, vnode } = assignment;
    const { blobs, signal, world, executorFor, resolver } = this.#options;
    const served = this.#sessions.get(session) ?? this.#open(session);
    resolver.refresh(session);
    const log = withFields(world.log, { session, vnode });
    log("info", `serving VNode ${vnode} of ${session}`);
    const host = new ServingVNode(assignment, {
      world: { ...world, log },
      signal,
      context: served.context,
      executor: (context) => executorFor(context.numerics),
      fetch: (hash) => blobs.fetch(session, hash as Parameters<BlobClient["fetch"]>[1], signal),
      send: (target, pass, tensor) => this.#send(target, pass, tensor),
      onOutputs: (pass, outputs) => this.#outputs(session, pass, outputs),
      onLost: (pass) => this.#tellConductor(session, pass),
    });
    served.vnodes.set(vnode, host);
  }

  #open(session: SessionId): Served {
    const { orchestrators, signal } = this.#options;
    const context = ServingContext.open(session, orchestrators, signal);
    context.catch((error: unknown) =>
      this.#options.world.log("error", `cannot serve ${session}: ${messageOf(error)}`, { session }),
    );
    const served: Served = { context, vnodes: new Map(), conductor: undefined, forwards: new Forwards() };
    this.#sessions.set(session, served);
    return served;
  }

  /** A session's VNodes have moved: passes under way are repeated. */
  moved(session: string): void {
    const served = this.#sessions.get(session as SessionId);
    served?.conductor?.reset();
    served?.forwards.failAll();
  }

  #lost(session: string, pass: number): void {
    this.#options.resolver.refresh(session as SessionId);
    const served = this.#sessions.get(session as SessionId);
    served?.conductor?.lost(pass);
    served?.forwards.fail(pass);
  }

  /** The conductor is beside the head, here or elsewhere. */
  #tellConductor(session: SessionId, pass: Pass): void {
    this.#options.resolver.refresh(session);
    const served = this.#sessions.get(session);
    if (pass.conductor === this.#options.pnode || !served) {
      this.#lost(session, pass.id);
      return;
    }
    this.#options.tasks.run(`tell the conductor of ${session}`, async () => {
      const { head } = await served.context;
      const place = this.#options.resolver.locate(session, head as VNodeId)[0];
      if (place?.pnode === pass.conductor) this.#link(place.address).send({ session, pass });
    });
  }

  #send(target: PassTarget, pass: Pass, tensor: WireTensor): void {
    const session = target.session as SessionId;
    const location = this.#options.resolver.locate(session, target.vnode as VNodeId)[0];
    if (location === undefined) this.#tellConductor(session, pass);
    else if (location.pnode === this.#options.pnode) this.#accept(target, pass, tensor);
    else this.#link(location.address).send({ target, pass, tensor });
  }

  #link(address: string): PassLink {
    const known = this.#links.get(address);
    if (known) return known;
    const { network, tasks, world, signal } = this.#options;
    const onLost = (session: string, pass: Pass) => this.#tellConductor(session as SessionId, pass);
    const link = new PassLink({ address, network, tasks, log: world.log, signal, onLost });
    this.#links.set(address, link);
    return link;
  }

  #find(session: string, vnode: string): ServingVNode | undefined {
    return this.#sessions.get(session as SessionId)?.vnodes.get(vnode as VNodeId);
  }

  #accept({ session, vnode, port }: PassTarget, pass: Pass, tensor: WireTensor): void {
    const host = this.#find(session, vnode);
    if (host) host.accept(port, pass, tensor);
    else this.#tellConductor(session as SessionId, pass);
  }

  #outputs(session: SessionId, pass: Pass, outputs: Readonly<Record<string, Tensor>>): void {
    const served = this.#sessions.get(session);
    if (pass.plain) served?.forwards.finish(pass.id, outputs);
    const logits = outputs["logits"];
    if (logits) served?.conductor?.logits(pass.id, logits.data as Float32Array, logits.shape.at(-1) as number);
  }

  async #conductor(session: string): Promise<{ served: Served; context: ServingContext; conductor: Conductor }> {
    const served = this.#sessions.get(session as SessionId);
    if (!served) fail("unavailable", `${session} is not served here: resolve again`);
    const context = await served.context;
    const head = served.vnodes.get(context.head as VNodeId);
    if (!head?.ready) fail("unavailable", `the head of ${session} is not here, or still loading`);
    served.conductor ??= new Conductor({
      pnode: this.#options.pnode,
      context: contextOf(context.plan),
      world: this.#options.world,
      feed: (pass, ids, tokens) =>
        this.#feed(context, pass, {
          dtype: "int32",
          shape: [pass.rows.length, tokens],
          bytes: new Uint8Array(ids.buffer),
        }),
    });
    return { served, context, conductor: served.conductor };
  }

  /** To every VNode that takes the network's inputs. */
  #feed({ plan, session, needed }: ServingContext, pass: Pass, tensor: WireTensor): void {
    for (const vnode of plan.vnodes)
      for (const port of vnode.inputs)
        if (port.source === "inputs" && needed.has(vnode.id))
          this.#send({ session, vnode: vnode.id, port: port.name }, pass, tensor);
  }

  service(): ServedService {
    return service(ServingService, {
      generateTokens: (request, context) => this.#generate(request, context.signal),
      forwardTensors: async (request) => {
        const { served, context } = await this.#conductorOrHead(request.session);
        const input = request.inputs["inputs"] ?? Object.values(request.inputs)[0];
        if (!input) fail("invalid_argument", "the request has no input tensor");
        return served.forwards.run(
          context,
          input,
          (pass, tensor) => this.#feed(context, pass, tensor),
          this.#options.pnode,
        );
      },
      passes: (channel) =>
        receivePasses(channel, {
          elementsMax: (target, pass) => {
            const host = this.#find(target.session, target.vnode);
            if (!host) fail("unavailable", `VNode ${target.vnode} is not here`);
            return host.elementsMax(target.port, pass);
          },
          accept: (target, pass, tensor) => this.#accept(target, pass, tensor),
          lost: (session, pass) => this.#lost(session, pass),
        }),
    });
  }

  async #conductorOrHead(session: string): Promise<{ served: Served; context: ServingContext }> {
    const served = this.#sessions.get(session as SessionId);
    if (!served) fail("unavailable", `${session} is not served here: resolve again`);
    return { served, context: await served.context };
  }

  async *#generate(request: Parameters<typeof tokenRequest>[0], signal: AbortSignal) {
    const { conductor } = await this.#conductor(request.session);
    for await (const { tokens, finish } of conductor.generate(tokenRequest(request), signal))
      yield { tokens: [...tokens], finish: finish ?? "" };
  }

  progress() {
    return [...this.#sessions.values()].flatMap(({ vnodes }) => [...vnodes.values()].map((host) => host.progress()));
  }

  hosted(): { session: string; vnode: string; epoch: bigint }[] {
    return this.progress().map(({ session, vnode, epoch }) => ({ session, vnode, epoch }));
  }

  async stop(): Promise<void> {
    for (const link of this.#links.values()) link.close();
    for (const served of this.#sessions.values()) {
      served.conductor?.close();
      await Promise.all([...served.vnodes.values()].map((host) => host.stop()));
    }
    this.#sessions.clear();
  }
}

function tokenRequest(request: {
  readonly request: string;
  readonly prompt: readonly number[];
  readonly sent: readonly number[];
  readonly maxTokens: number;
  readonly endTokens: readonly number[];
  readonly session: string;
  readonly sampling?:
    | { temperature: number; topK: number; topP: number; repetitionPenalty: number; seed: bigint }
    | undefined;
}) {
  const { sampling } = request;
  return {
    id: request.request,
    prompt: request.prompt,
    sent: request.sent,
    maxTokens: request.maxTokens,
    sampling: {
      temperature: sampling?.temperature ?? 0,
      topK: sampling?.topK ?? 0,
      topP: sampling?.topP || 1,
      repetitionPenalty: sampling?.repetitionPenalty || 1,
      seed: Number(sampling?.seed ?? 0n),
    },
    endTokens: new Set(request.endTokens),
  };
}
