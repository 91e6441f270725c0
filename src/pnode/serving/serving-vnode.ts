// One VNode that answers: loads its weights, takes passes in the order they become complete, and runs them through itself and
// the VNodes that follow it on this machine, in one go.

import { fail, hasCode, messageOf, outlookOf } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { WireType } from "../../core/numbers/wire-types.ts";
import type { Shape, Tensor } from "../../core/tensor.ts";
import type { Cancel, World } from "../../core/world.ts";
import type { Executor, StageExecutor } from "../../engine/engine.ts";
import { canGenerate, contextOf } from "../../network/graphs/generation.ts";
import { servingBytesOf, wholeServingBytesOf } from "../../network/memory.ts";
import type { PlanEdge, VNodePlan } from "../../network/plan.ts";
import { bitsOf } from "../../network/weight-format.ts";
import type { StateReader } from "../../states/reader.ts";
import { type Chain, type ChainRow, runChain } from "../../vnode/serving/chain.ts";
import { VNodeForward } from "../../vnode/serving/forward.ts";
import { VNodeGeneration } from "../../vnode/serving/generation.ts";
import { plainOutputs, plainRows } from "../../vnode/serving/plain.ts";
import { ServingWeights } from "../../vnode/serving/weights.ts";
import { open, pack, type WireTensor } from "../../vnode/wire.ts";
import type { ServingAssignment } from "../assignment.ts";
import { NoRoom } from "../room.ts";
import type { AnswerRows } from "./answer-rows.ts";
import { samplesMaxOf } from "./forwards.ts";
import { isLater, type Pass, type PassTarget, type Turn, tokensIn } from "./pass.ts";
import type { PassSender } from "./passes.ts";
import type { ServingContext } from "./serving-context.ts";
import { checkAdapter } from "./token-request.ts";
import { type WaitingPass, WaitingPasses } from "./waiting-passes.ts";
import { wantedWeights } from "./wanted-weights.ts";

export interface ServingShared {
  readonly world: World;
  readonly context: Promise<ServingContext>;
  readonly executor: (context: ServingContext) => Promise<Executor>;
  /** One VNode after the other: while it loads, its weights are in memory several times. */
  readonly inTurn: <T>(load: () => Promise<T>) => Promise<T>;
  /** Where the model's units run on this machine. */
  readonly stage: (executor: Executor) => StageExecutor;
  /** Fails with `NoRoom` if this PNode lends less. */
  readonly takeRoom: (bytes: number, stopped: AbortSignal) => Promise<void>;
  readonly openState: (state: Sha256) => Promise<StateReader>;
  /** A VNode of the model that values may go to without leaving this machine. */
  readonly neighbour: (vnode: string) => ServingVNode | undefined;
  readonly send: (sender: PassSender, target: PassTarget, pass: Pass, tensor: WireTensor) => void;
  /** At the head only. */
  readonly onOutputs: (pass: Pass, outputs: Readonly<Record<string, Tensor>>) => void;
  /** Remembers what passed here, where answers are checked. */
  readonly rows: AnswerRows;
  /** The pass cannot be finished here; `failure` says why repeating it would not help, if it would not. */
  readonly onLost: (pass: Pass, failure: string) => void;
}

/** What a port takes in a pass. */
export interface ExpectedInput {
  readonly dtype: WireType;
  readonly shape: Shape;
  /** The VNode that sends it. */
  readonly from: string;
  /** The VNode beside which the conductor is. */
  readonly head: string;
}

/** What computes: token by token, or explicit tensors only. */
type Numerics =
  | { readonly kind: "generation"; readonly generation: VNodeGeneration; readonly stage: StageExecutor }
  | { readonly kind: "forward"; readonly forward: VNodeForward };

/** Whose conductor is silent for so long has no use for its caches, or begins anew. */
const idleMs = 120_000;

export class ServingVNode {
  readonly assignment: ServingAssignment;
  readonly #shared: ServingShared;
  readonly waiting = new WaitingPasses();
  #numerics: Numerics | undefined;
  #context: ServingContext | undefined;
  /** Input ports that a pass needs. */
  #inputs: readonly string[] = [];
  #turn: Turn = { epoch: -1, attempt: 0 };
  /** An earlier turn than the newest may be the present one: whoever counted them is gone. */
  #isTurnOpen = false;
  #running: Promise<void>;
  readonly #loaded: Promise<void>;
  #trouble = "";
  #noRoom = false;
  #passes = 0;
  #passMs = 0;
  #lastPassMs = 0;
  #idleTimer: Cancel | undefined;
  readonly #stopping = new AbortController();

  constructor(assignment: ServingAssignment, shared: ServingShared) {
    this.assignment = assignment;
    this.#shared = shared;
    this.#loaded = this.#load();
    this.#running = this.#loaded;
  }

  async #load(): Promise<void> {
    try {
      const context = await this.#shared.context;
      const vnode = context.vnode(this.assignment.vnode);
      const { draft, head } = context;
      // The draft is whole wherever the head is.
      const beside = draft && vnode.id === head ? wholeServingBytesOf(draft.plan, draft.weights) : 0;
      const bytes = servingBytesOf(context.plan, vnode, context.weights) + beside;
      await this.#shared.takeRoom(bytes, this.#stopping.signal);
      if (this.#stopping.signal.aborted) return;
      this.#inputs = vnode.inputs
        .filter(({ kind, source }) => kind === "activation" && source !== "labels")
        .map(({ name: port }) => port);
      this.#numerics = await this.#shared.inTurn(() => this.#openNumerics(context, vnode));
      this.#context = context;
    } catch (error) {
      this.#trouble = messageOf(error);
      this.#noRoom = error instanceof NoRoom;
      this.#shared.world.log("error", `VNode ${this.assignment.vnode} cannot serve: ${this.#trouble}`);
    }
  }

  async #openNumerics(context: ServingContext, vnode: VNodePlan): Promise<Numerics> {
    const executor = await this.#shared.executor(context);
    const graphs = context.graphsOf(vnode);
    const generates = canGenerate(context.plan) && context.needed.has(vnode.id);
    const unit = generates ? await graphs.unit() : undefined;
    const weights = await ServingWeights.load(await wantedWeights(context, vnode, this.#shared.openState), executor);
    const name = `serve/${context.replica}/${vnode.id}/${this.assignment.epoch}`;
    if (unit === undefined) return { kind: "forward", forward: new VNodeForward({ graphs, executor, weights, name }) };
    const stage = this.#shared.stage(executor);
    const generation = await VNodeGeneration.open({ unit, stage, weights, name, bits: bitsOf(context.weights) });
    if (context.weights)
      this.#shared.world.log(
        "info",
        `the weights of VNode ${vnode.id} take ${context.weights}: ${(100 * generation.weightError).toFixed(2)} % of their size is lost`,
      );
    return { kind: "generation", stage, generation };
  }

  /** Resolves when it has its weights, or will not have them. */
  get loaded(): Promise<void> {
    return this.#loaded;
  }

  get ready(): boolean {
    return this.#numerics !== undefined;
  }

  get givesHidden(): boolean {
    return this.#numerics?.kind === "generation" && this.#numerics.generation.givesHidden;
  }

  /** What its last pass took, with the VNodes that went along. */
  get passMs(): number {
    return this.#passMs;
  }

  /** Undefined while it loads. */
  expects(port: string, pass: Pass, samples: number): ExpectedInput | undefined {
    const context = this.#context;
    if (context === undefined) return undefined;
    const { vnode } = this.assignment;
    const plan = context.vnode(vnode).inputs.find(({ name }) => name === port);
    if (!plan) fail("invalid_argument", `VNode ${vnode} has no input ${port}`);
    for (const { adapter = 0, position, tokens } of pass.rows) {
      checkAdapter(adapter, context.adapters);
      const end = position + tokens;
      if (end > contextOf(context.plan)) fail("out_of_range", `position ${end} is beyond the model's context`);
    }
    const edge = context.plan.edges.find(
      ({ to, toPort, kind }) => to === vnode && toPort === port && kind === plan.kind,
    );
    // The network's own inputs come from the conductor, which is beside the head.
    const { head } = context;
    const most = samplesMaxOf(context.plan, edge === undefined);
    const shape = shapeIn(plan.shape, pass, Math.min(samples, most));
    return { dtype: plan.wire, shape, from: edge?.from ?? head, head };
  }

  accept(port: string, pass: Pass, tensor: WireTensor): void {
    const context = this.#context;
    if (!context || !this.#numerics || !this.waiting.hasRoom(tensor.bytes.byteLength)) {
      this.#shared.onLost(pass, "");
      return;
    }
    if (!pass.plain && !this.#follow(pass)) return;
    if (!this.waiting.fits(pass)) {
      this.#shared.onLost(pass, "");
      return;
    }
    const whole = this.waiting.add(port, pass, tensor, this.#inputs);
    if (whole === undefined) return;
    // One pass after the other: caches grow in the order of positions.
    this.#running = this.#running.then(() => this.#run(context, whole)).then(() => this.waiting.done(whole));
  }

  /** False for what is left of an earlier turn. */
  #follow(pass: Pass): boolean {
    if (isLater(this.#turn, pass) && !this.#isTurnOpen) return false;
    if (isLater(pass, this.#turn) || isLater(this.#turn, pass)) {
      this.#turn = pass;
      this.#isTurnOpen = false;
      this.waiting.dropParts();
      this.#clear();
    }
    return true;
  }

  /** Somebody of the replica is another now: turns that its predecessor made up keep nobody from following the conductor's. */
  moved(): void {
    this.#isTurnOpen = true;
  }

  #clear(): void {
    if (this.#numerics?.kind === "generation") this.#numerics.generation.clear();
  }

  /** Takes part in a pass from now on; what it says of caches is done. False for what is left of an earlier turn. */
  #enter(pass: Pass): boolean {
    if (pass.plain) return true;
    if (!this.#follow(pass)) return false;
    this.#lastPassMs = this.#shared.world.clock.monotonicMs();
    this.#watchForIdleness();
    if (this.#numerics?.kind === "generation") this.#numerics.generation.drop(pass.dropped);
    return true;
  }

  async #run(context: ServingContext, { pass, inputs }: WaitingPass): Promise<void> {
    const numerics = this.#numerics;
    if (!numerics || this.#stopping.signal.aborted) return;
    const members = numerics.kind === "generation" ? this.#chain(context) : [this];
    if (!members.every((member) => member.#enter(pass))) return;
    const { clock } = this.#shared.world;
    const startedMs = clock.monotonicMs();
    try {
      const feeds = Object.fromEntries([...inputs].map(([port, tensor]) => [port, open(tensor)]));
      if (numerics.kind === "forward") await this.#forward(context, numerics.forward, pass, feeds);
      else await this.#generate(context, members, numerics.stage, pass, feeds);
      const tookMs = clock.monotonicMs() - startedMs;
      for (const member of members) member.#finished(tookMs);
    } catch (error) {
      const reason = messageOf(error);
      const mayPass = outlookOf(error) === "passing";
      if (!mayPass) this.#shared.world.log("warn", `pass ${pass.id} failed at ${this.assignment.vnode}: ${reason}`);
      // The worker died with what it had loaded.
      if (numerics.kind === "generation" && hasCode(error, "unavailable"))
        for (const member of members) member.#loadAgain();
      this.#shared.onLost(pass, mayPass ? "" : `VNode ${this.assignment.vnode}: ${reason}`);
    }
  }

  #finished(tookMs: number): void {
    this.#passes++;
    this.#passMs = tookMs;
  }

  #loadAgain(): void {
    if (this.#stopping.signal.aborted || this.#numerics?.kind !== "generation") return;
    const { generation } = this.#numerics;
    this.#numerics = undefined;
    this.#running = this.#running.then(() => generation.close()).then(() => this.#load());
  }

  /** This VNode and those here whose values all come from it and them. */
  #chain(context: ServingContext): ServingVNode[] {
    const members: ServingVNode[] = [this];
    const ids = new Set<string>([this.assignment.vnode]);
    for (const id of context.following(this.assignment.vnode)) {
      const member = this.#shared.neighbour(id);
      if (member === undefined || member.#numerics?.kind !== "generation") continue;
      if (!context.sourcesOf(id).every((source) => ids.has(source))) continue;
      members.push(member);
      ids.add(id);
    }
    return members;
  }

  async #generate(
    context: ServingContext,
    members: readonly ServingVNode[],
    stage: StageExecutor,
    pass: Pass,
    feeds: Readonly<Record<string, Tensor>>,
  ): Promise<void> {
    const { plan, head } = context;
    const ids = new Map(members.map((member) => [member.assignment.vnode as string, member]));
    const chain: Chain = {
      links: new Map(
        members.map((member) => [
          member.assignment.vnode,
          (member.#numerics as Numerics & { kind: "generation" }).generation,
        ]),
      ),
      inner: context.onward.filter(({ from, to }) => ids.has(from) && ids.has(to)),
      leaving: context.onward.filter(({ from, to }) => ids.has(from) && !ids.has(to)),
      head: ids.has(head) ? head : undefined,
    };
    const rows: readonly ChainRow[] = pass.plain ? plainRows(pass.id, feeds) : pass.rows;
    if (isRemembered(context, pass))
      for (const [port, tensor] of Object.entries(feeds))
        this.#shared.rows.record(pass.epoch, pass.rows, `got ${context.edgeInto(this.assignment.vnode, port)}`, tensor);
    const results = rows.length === 0 ? undefined : await runChain(stage, chain, rows, feeds, contextOf(plan));
    if (pass.plain) for (const member of members) member.#dropPlain(rows);
    const outputs = results?.outputs ?? {};
    if (chain.head !== undefined)
      this.#shared.onOutputs(pass, pass.plain ? plainOutputs(plan, outputs, rows) : outputs);
    // Whoever hears of tokens' outputs is done with them by now.
    if (!pass.plain) stage.recycle(Object.values(outputs));
    for (const [i, edge] of chain.leaving.entries()) {
      const tensor = results?.leaving[i] ?? nothing(edge);
      const from = (ids.get(edge.from) as ServingVNode).assignment;
      this.#handOn(context, from, edge, pass, pass.plain ? withPositions(tensor, rows) : tensor);
    }
  }

  #dropPlain(rows: readonly ChainRow[]): void {
    if (this.#numerics?.kind === "generation") this.#numerics.generation.drop(rows.map(({ request }) => request));
  }

  async #forward(
    context: ServingContext,
    forward: VNodeForward,
    pass: Pass,
    feeds: Readonly<Record<string, Tensor>>,
  ): Promise<void> {
    if (!pass.plain) fail("failed_precondition", `network ${context.plan.name} does not generate text`);
    const results = await forward.run(feeds, Object.values(feeds)[0]?.shape[0] ?? 1);
    if (context.head === this.assignment.vnode) this.#shared.onOutputs(pass, results);
    for (const edge of context.onward)
      if (edge.from === this.assignment.vnode)
        this.#handOn(context, this.assignment, edge, pass, results[edge.fromPort] as Tensor);
    forward.recycle(Object.values(results));
  }

  #handOn(
    context: ServingContext,
    from: ServingAssignment,
    { to, toPort, wire, id }: PlanEdge,
    pass: Pass,
    tensor: Tensor,
  ): void {
    const packed = pack(tensor, wire, `${id} in pass ${pass.id}`);
    if (isRemembered(context, pass)) this.#shared.rows.record(pass.epoch, pass.rows, `sent ${id}`, open(packed));
    this.#shared.send(from, { session: context.replica, vnode: to, port: toPort }, pass, packed);
  }

  #watchForIdleness(): void {
    const { clock, timers } = this.#shared.world;
    this.#idleTimer ??= timers.after(idleMs, () => {
      this.#idleTimer = undefined;
      if (clock.monotonicMs() - this.#lastPassMs < idleMs) this.#watchForIdleness();
      else this.#clear();
    });
  }

  progress() {
    const { session, vnode, epoch } = this.assignment;
    const phase = this.#trouble ? "failed" : this.ready ? "serving" : "loading";
    return {
      ...{ session, vnode, epoch: BigInt(epoch), step: BigInt(this.#passes), phase, detail: this.#trouble },
      stepMs: this.#passMs,
      retainedBytes: 0n,
      noRoom: this.#noRoom,
      ...this.#weightError(),
    };
  }

  /** Only where something was measured. */
  #weightError(): { readonly weightError?: number } {
    if (this.#numerics?.kind !== "generation" || !this.#context?.weights) return {};
    return { weightError: this.#numerics.generation.weightError };
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#idleTimer?.();
    await this.#running;
    if (this.#numerics?.kind === "generation") await this.#numerics.generation.close();
    else this.#numerics?.forward.close();
    this.#numerics = undefined;
  }
}

function isRemembered({ isAudited }: ServingContext, { plain, rows }: Pass): boolean {
  return isAudited && !plain && rows.length > 0;
}

/** A pass comes with as many rows as it has tokens, explicit tensors with as many samples as they have. */
function shapeIn(planned: Shape, pass: Pass, samples: number): Shape {
  if (pass.plain) return [samples, ...planned];
  return [tokensIn(pass), 1, ...planned.slice(1)];
}

/** What a pass without rows hands on. */
function nothing({ wire, shape }: PlanEdge): Tensor {
  const empty = [0, 1, ...shape.slice(1)];
  return wire === "int32"
    ? { dtype: "int32", shape: empty, data: new Int32Array(0) }
    : { dtype: "float32", shape: empty, data: new Float32Array(0) };
}

/** Rows of explicit tensors as they travel: samples, then positions. */
function withPositions(tensor: Tensor, rows: readonly ChainRow[]): Tensor {
  return { ...tensor, shape: [rows.length, rows[0]?.tokens ?? 0, ...tensor.shape.slice(2)] };
}
