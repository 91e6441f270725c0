// All VNodes of this PNode that answer: which are hosted, what conducts their passes, and what becomes of both when they move.

import type { Aside } from "../../core/aside.ts";
import { fail, messageOf } from "../../core/errors.ts";
import type { ReplicaId, VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { Tensor } from "../../core/tensor.ts";
import { type World, withFields } from "../../core/world.ts";
import type { EngineKind, Executor, StageExecutor } from "../../engine/engine.ts";
import { cachePositionsMax, contextOf } from "../../network/graphs/generation.ts";
import type { Links } from "../../peer/links.ts";
import type { ServedService } from "../../protocol/network.ts";
import { headOutputs } from "../../vnode/serving/chain.ts";
import type { WireTensor } from "../../vnode/wire.ts";
import { hostKey, type ServingAssignment } from "../assignment.ts";
import { AnswerCheck } from "../auditing/answer-check.ts";
import type { BlobClient } from "../blob-client.ts";
import type { Orchestrators } from "../orchestrators.ts";
import type { Resolver } from "../resolver.ts";
import type { Room } from "../room.ts";
import { AnswerRows } from "./answer-rows.ts";
import { Conductor } from "./conductor.ts";
import type { ConductorLoad } from "./conductor-options.ts";
import { DraftModel } from "./draft-model.ts";
import { Forwards } from "./forwards.ts";
import { guessKinds } from "./guessing.ts";
import type { LostPass, Pass } from "./pass.ts";
import { Passes } from "./passes.ts";
import { Schemas } from "./schemas.ts";
import { ServingContext, type ServingNeeds } from "./serving-context.ts";
import { type HeadHere, servingService } from "./serving-service.ts";
import { ServingVNode } from "./serving-vnode.ts";
import type { HeadRows } from "./taking.ts";

export interface ServingsOptions {
  readonly pnode: string;
  readonly world: World;
  readonly links: Links;
  readonly tasks: Tasks;
  readonly resolver: Resolver;
  readonly orchestrators: Orchestrators;
  readonly blobs: BlobClient;
  readonly aside: Aside;
  readonly room: Room;
  readonly executorFor: (engine: EngineKind) => Promise<Executor>;
  readonly signal: AbortSignal;
  /** Large things were loaded and nothing waits to be loaded: memory that is left of it may go. */
  readonly tidy?: (() => void) | undefined;
  /** Fails for a replica that this PNode must not answer for. */
  readonly checkServed: ServingNeeds["checkServed"];
}

interface Served {
  readonly context: Promise<ServingContext>;
  readonly vnodes: Map<VNodeId, ServingVNode>;
  /** Lives as long as the head is here. */
  conducting: { readonly head: ServingVNode; readonly conductor: Conductor } | undefined;
  /** As long, where there is a draft. */
  drafting: { readonly head: ServingVNode; readonly draft: DraftModel } | undefined;
  readonly forwards: Forwards;
  readonly rows: AnswerRows;
  /** Where its units run here; one as long as VNodes are here. */
  stage: StageExecutor | undefined;
}

export class Servings {
  readonly #options: ServingsOptions;
  readonly #replicas = new Map<ReplicaId, Served>();
  /** How tensors of passes get from VNode to VNode. */
  readonly passes: Passes;
  #loading: Promise<unknown> = Promise.resolve();
  #toLoad = 0;
  #requests = 0;
  readonly #schemas: Schemas;
  readonly #checks: AnswerCheck;

  constructor(options: ServingsOptions) {
    this.#options = options;
    this.#schemas = new Schemas(options);
    this.#checks = new AnswerCheck({ ...options, schemas: this.#schemas });
    this.passes = new Passes({
      pnode: options.pnode,
      links: options.links,
      resolver: options.resolver,
      tasks: options.tasks,
      log: options.world.log,
      find: (session, vnode) => this.#find(session, vnode),
      onLost: (lost) => this.#lost(lost),
      head: (replica) => this.#replicas.get(replica)?.context.then(({ head }) => head),
    });
  }

  /** The whole list of what is to be served here. */
  reconcile(assignments: readonly ServingAssignment[]): void {
    const wanted = new Map(
      assignments.map((assignment) => [hostKey(assignment.session, assignment.vnode), assignment]),
    );
    for (const [replica, served] of this.#replicas) {
      for (const [vnode, host] of served.vnodes) {
        const assignment = wanted.get(hostKey(replica, vnode));
        if (assignment && assignment.since <= host.assignment.epoch) wanted.delete(hostKey(replica, vnode));
        else this.#drop(served, vnode, host);
      }
      if (served.vnodes.size === 0 && !assignments.some((assignment) => assignment.session === replica)) {
        served.forwards.failAll();
        this.#replicas.delete(replica);
        this.passes.forget(replica);
      }
    }
    for (const assignment of wanted.values()) this.#host(assignment);
  }

  #drop(served: Served, vnode: VNodeId, host: ServingVNode): void {
    served.vnodes.delete(vnode);
    if (served.conducting?.head === host) {
      served.conducting.conductor.close();
      served.conducting = undefined;
    }
    if (served.drafting?.head === host) {
      const { draft } = served.drafting;
      served.drafting = undefined;
      this.#options.tasks.run(`stop the draft of ${vnode}`, () => draft.close());
    }
    this.#options.tasks.run(`stop serving ${vnode}`, () => host.stop());
    this.#options.room.giveBack(hostKey(host.assignment.session, vnode));
  }

  #host(assignment: ServingAssignment): void {
    const { session, vnode } = assignment;
    const { blobs, signal, world, executorFor, resolver, room } = this.#options;
    const served = this.#replicas.get(session) ?? this.#open(session);
    resolver.refresh(session);
    const log = withFields(world.log, { session, vnode });
    log("info", `serving VNode ${vnode} of ${session}`);
    const host = new ServingVNode(assignment, {
      world: { ...world, log },
      context: served.context,
      executor: (context) => executorFor(context.numerics),
      inTurn: (load) => this.#inTurn(load),
      stage: (executor) => {
        served.stage ??= executor.openStage();
        return served.stage;
      },
      neighbour: (id) => this.#neighbour(served, session, id),
      takeRoom: (bytes, stopped) => room.take(hostKey(session, vnode), bytes, stopped),
      openState: (state) => blobs.openState(session, state, `the state of VNode ${vnode} to serve`, signal),
      send: (sender, target, pass, tensor) => this.passes.send(sender, target, pass, tensor),
      onOutputs: (pass, outputs) => this.#outputs(served, pass, outputs),
      rows: served.rows,
      onLost: (pass, failure) => this.passes.tellConductor({ session, pass, failure }),
    });
    served.vnodes.set(vnode, host);
    served.context.then(
      (context) => this.#draft(context, served, host),
      () => {},
    );
  }

  /** A smaller model comes to wherever the head is, and goes with it. */
  #draft(context: ServingContext, served: Served, head: ServingVNode): void {
    const { blobs, signal, world, executorFor } = this.#options;
    const { vnode, session, epoch } = head.assignment;
    if (context.draft === undefined || vnode !== context.head || served.vnodes.get(vnode) !== head) return;
    const draft = new DraftModel({
      context: context.draft,
      vocabulary: context.plan.inputs?.below ?? 0,
      name: `draft/${session}/${epoch}`,
      world: { ...world, log: withFields(world.log, { session, vnode }) },
      executor: executorFor,
      inTurn: async (load) => {
        await head.loaded;
        return this.#inTurn(load);
      },
      openState: (state) => blobs.openState(session, state, `the draft of ${session}`, signal),
    });
    served.drafting = { head, draft };
  }

  #open(replica: ReplicaId): Served {
    const context = ServingContext.open(replica, this.#options);
    context.catch((error: unknown) =>
      this.#options.world.log("error", `cannot serve ${replica}: ${messageOf(error)}`, { session: replica }),
    );
    const served: Served = {
      context,
      vnodes: new Map(),
      conducting: undefined,
      drafting: undefined,
      forwards: new Forwards(),
      rows: new AnswerRows(),
      stage: undefined,
    };
    this.#replicas.set(replica, served);
    return served;
  }

  #inTurn<T>(load: () => Promise<T>): Promise<T> {
    this.#toLoad++;
    const result = this.#loading.then(load);
    this.#loading = result
      .catch(() => {})
      .then(() => {
        if (--this.#toLoad === 0) this.#options.tidy?.();
      });
    return result;
  }

  /** A VNode that runs here, and that others too believe to be here. */
  #neighbour({ vnodes }: Served, session: ReplicaId, vnode: string): ServingVNode | undefined {
    const { resolver, pnode } = this.#options;
    const host = vnodes.get(vnode as VNodeId);
    return host?.ready && resolver.locate(session, vnode as VNodeId)[0]?.pnode === pnode ? host : undefined;
  }

  /** A replica's VNodes have moved: passes under way are repeated. */
  moved(session: string): void {
    const served = this.#replicas.get(session as ReplicaId);
    for (const host of served?.vnodes.values() ?? []) host.moved();
    this.passes.forget(session);
    served?.conducting?.conductor.reset();
    served?.forwards.failAll();
  }

  /** A pass of a conductor here. */
  #lost({ session, pass, failure }: LostPass): void {
    const served = this.#replicas.get(session as ReplicaId);
    if (pass.plain) served?.forwards.fail(pass.id, failure);
    else if (served?.conducting?.head.assignment.epoch !== pass.epoch) return;
    else if (failure) served.conducting.conductor.failed(pass, failure);
    else served.conducting.conductor.lost(pass);
  }

  #find(session: string, vnode: string): ServingVNode | undefined {
    return this.#replicas.get(session as ReplicaId)?.vnodes.get(vnode as VNodeId);
  }

  #outputs({ forwards, conducting }: Served, pass: Pass, outputs: Readonly<Record<string, Tensor>>): void {
    if (pass.plain) forwards.finish(pass.id, outputs);
    const { logits, hidden } = headOutputs(outputs);
    if (logits && conducting?.head.assignment.epoch === pass.epoch)
      conducting.conductor.finished(pass, rowsOf(logits), hidden && rowsOf(hidden));
  }

  async #head(session: string): Promise<HeadHere> {
    const served = this.#replicas.get(session as ReplicaId);
    if (!served) fail("unavailable", `${session} is not served here: resolve again`);
    const context = await served.context;
    const head = served.vnodes.get(context.head as VNodeId);
    if (!head?.ready) fail("unavailable", `the head of ${session} is not here, or still loading`);
    return {
      ...{ context, head, forwards: served.forwards },
      conductor: () => this.#conducting(served, context, head),
      feed: (pass, tensor) => this.#feed(context, head, pass, tensor),
    };
  }

  #conducting(served: Served, context: ServingContext, head: ServingVNode): Conductor {
    if (served.vnodes.get(context.head as VNodeId) !== head)
      fail("unavailable", `the head of ${context.replica} moves`);
    served.conducting ??= { head, conductor: this.#conductor(context, served, head) };
    return served.conducting.conductor;
  }

  #conductor(context: ServingContext, served: Served, head: ServingVNode): Conductor {
    const { pnode, world } = this.#options;
    const { rows } = served;
    return new Conductor({
      pnode,
      epoch: head.assignment.epoch,
      context: contextOf(context.plan),
      positionsMax: cachePositionsMax(context.plan),
      world,
      stageMs: () => head.passMs,
      drafter: () => served.drafting?.draft.drafter,
      nextRequest: () => ++this.#requests,
      ...(context.isAudited && {
        onLogits: (row, logits) =>
          rows.chose(head.assignment.epoch, row, { dtype: "float32", shape: [row.tokens, 1], data: logits }),
      }),
      feed: (pass, ids) => {
        const tensor = { dtype: "int32" as const, shape: [ids.length, 1], data: ids };
        if (context.isAudited && ids.length > 0) rows.record(pass.epoch, pass.rows, "sent inputs", tensor);
        this.#feed(context, head, pass, { ...tensor, bytes: new Uint8Array(ids.buffer) });
      },
    });
  }

  /** To every VNode that takes the network's inputs. */
  #feed({ plan, replica, needed }: ServingContext, head: ServingVNode, pass: Pass, tensor: WireTensor): void {
    for (const vnode of plan.vnodes)
      for (const port of vnode.inputs)
        if (port.source === "inputs" && needed.has(vnode.id))
          this.passes.send(head.assignment, { session: replica, vnode: vnode.id, port: port.name }, pass, tensor);
  }

  service(): ServedService {
    const { pnode, world } = this.#options;
    return servingService({
      ...{ pnode, timers: world.timers, schemas: this.#schemas, checks: this.#checks },
      head: (session) => this.#head(session),
      rows: (session) => this.#replicas.get(session as ReplicaId)?.rows,
    });
  }

  progress() {
    return [...this.#replicas.values()].flatMap(({ vnodes, conducting }) =>
      Array.from(vnodes.values(), (host) => ({
        ...host.progress(),
        ...(conducting?.head === host && { guesses: toldGuesses(conducting.conductor.load) }),
      })),
    );
  }

  /** What conductors here have saved and guessed since they began, by replica. */
  conducted(): { readonly replica: ReplicaId; readonly load: ConductorLoad }[] {
    return [...this.#replicas].flatMap(([replica, { conducting }]) =>
      conducting ? [{ replica, load: conducting.conductor.load }] : [],
    );
  }

  hosted(): { session: string; vnode: string; epoch: bigint }[] {
    return this.progress().map(({ session, vnode, epoch }) => ({ session, vnode, epoch }));
  }

  async stop(): Promise<void> {
    for (const served of this.#replicas.values()) {
      served.conducting?.conductor.close();
      await served.drafting?.draft.close();
      await Promise.all([...served.vnodes.values()].map((host) => host.stop()));
    }
    this.#replicas.clear();
  }
}

function rowsOf({ data, shape }: Tensor): HeadRows {
  return { values: data as Float32Array, width: shape.at(-1) as number };
}

/** By kind, of those that were ever guessed. */
function toldGuesses({ guesses }: ConductorLoad) {
  return guessKinds
    .map((kind) => ({ kind, guessed: BigInt(guesses[kind].guessed), right: BigInt(guesses[kind].right) }))
    .filter(({ guessed }) => guessed > 0n);
}
