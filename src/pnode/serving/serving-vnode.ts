// One VNode that answers: loads its weights, runs passes in the order they become complete, hands results on.

import { fail, messageOf, outlookOf } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { WireType } from "../../core/numbers/wire-types.ts";
import type { Shape, Tensor } from "../../core/tensor.ts";
import type { Cancel, World } from "../../core/world.ts";
import type { Executor } from "../../engine/engine.ts";
import { servingBytesOf } from "../../network/memory.ts";
import type { PlanEdge, VNodePlan } from "../../network/plan.ts";
import type { StateReader } from "../../states/reader.ts";
import { VNodeGeneration } from "../../vnode/serving/generation.ts";
import { ServingWeights, type WantedWeight } from "../../vnode/serving/weights.ts";
import { open, pack, type WireTensor } from "../../vnode/wire.ts";
import type { ServingAssignment } from "../assignment.ts";
import { NoRoom } from "../room.ts";
import { samplesMax } from "./forwards.ts";
import { isLater, type Pass, type PassTarget, type Turn } from "./pass.ts";
import type { PassSender } from "./passes.ts";
import type { ServingContext } from "./serving-context.ts";

export interface ServingShared {
  readonly world: World;
  readonly context: Promise<ServingContext>;
  readonly executor: (context: ServingContext) => Promise<Executor>;
  /** Fails with `NoRoom` if this PNode lends less. */
  readonly takeRoom: (bytes: number, stopped: AbortSignal) => Promise<void>;
  readonly openState: (state: Sha256) => Promise<StateReader>;
  readonly send: (sender: PassSender, target: PassTarget, pass: Pass, tensor: WireTensor) => void;
  /** At the head only. */
  readonly onOutputs: (pass: Pass, outputs: Readonly<Record<string, Tensor>>) => void;
  /** The pass cannot be finished here; `failure` says why repeating it would not help, if it would not. */
  readonly onLost: (pass: Pass, failure: string) => void;
}

interface Pending {
  readonly pass: Pass;
  readonly inputs: Map<string, WireTensor>;
}

/** Passes of which only some inputs came; more would mean that a peer misbehaves. */
const pendingMax = 256;
/** Whose conductor is silent for so long has no use for its caches, or repeats its passes. */
const idleMs = 120_000;

export class ServingVNode {
  readonly assignment: ServingAssignment;
  readonly #shared: ServingShared;
  readonly #pending = new Map<number, Pending>();
  #generation: VNodeGeneration | undefined;
  #context: ServingContext | undefined;
  /** Input ports that a pass needs, and where its results go. */
  #inputs: readonly string[] = [];
  #onward: readonly PlanEdge[] = [];
  #turn: Turn = { epoch: -1, attempt: 0 };
  #running: Promise<void> = Promise.resolve();
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
    this.#running = this.#load();
  }

  async #load(): Promise<void> {
    try {
      const context = await this.#shared.context;
      const vnode = context.vnode(this.assignment.vnode);
      await this.#shared.takeRoom(servingBytesOf(context.plan, vnode), this.#stopping.signal);
      if (this.#stopping.signal.aborted) return;
      const executor = await this.#shared.executor(context);
      const weights = await ServingWeights.load(await this.#wanted(context, vnode), executor);
      const name = `serve/${context.replica}/${vnode.id}/${this.assignment.epoch}`;
      const graphs = context.graphsOf(vnode);
      this.#generation = await VNodeGeneration.open({ plan: context.plan, vnode, graphs, executor, weights, name });
      this.#inputs = vnode.inputs
        .filter(({ kind, source }) => kind === "activation" && source !== "labels")
        .map(({ name: port }) => port);
      this.#onward = context.plan.edges.filter(
        ({ from, to, kind }) => from === vnode.id && kind === "activation" && context.needed.has(to),
      );
      this.#context = context;
    } catch (error) {
      this.#trouble = messageOf(error);
      this.#noRoom = error instanceof NoRoom;
      this.#shared.world.log("error", `VNode ${this.assignment.vnode} cannot serve: ${this.#trouble}`);
    }
  }

  async #wanted(context: ServingContext, vnode: VNodePlan): Promise<WantedWeight[]> {
    const wanted: WantedWeight[] = [];
    if (vnode.parameters.length > 0) {
      const state = await this.#shared.openState(context.stateOf(vnode.id));
      for (const { name, shape, precision } of vnode.parameters)
        wanted.push({ name, stored: name, shape, precision, state });
    }
    // Tied weights come from the publisher's own state: they never change while a model serves.
    for (const edge of context.plan.edges) {
      if (edge.kind !== "tie" || edge.to !== vnode.id) continue;
      const state = await this.#shared.openState(context.stateOf(edge.from));
      const published = context.vnode(edge.from).parameters.find(({ name }) => name === edge.fromPort);
      const precision = published?.precision ?? "float32";
      wanted.push({ name: edge.toPort, stored: edge.fromPort, shape: edge.shape, precision, state });
    }
    return wanted;
  }

  get ready(): boolean {
    return this.#generation !== undefined;
  }

  /** What a port takes in a pass, and from which VNode; undefined while it loads. */
  expects(
    port: string,
    pass: Pass,
    samples: number,
  ): { readonly dtype: WireType; readonly shape: Shape; readonly from: string } | undefined {
    const context = this.#context;
    if (context === undefined) return undefined;
    const { vnode } = this.assignment;
    const plan = context.vnode(vnode).inputs.find(({ name }) => name === port);
    if (!plan) fail("invalid_argument", `VNode ${vnode} has no input ${port}`);
    const edge = context.plan.edges.find(
      ({ to, toPort, kind }) => to === vnode && toPort === port && kind === plan.kind,
    );
    // The network's own inputs come from the conductor, which is beside the head.
    return { dtype: plan.wire, shape: shapeIn(plan.shape, pass, samples), from: edge?.from ?? context.head };
  }

  accept(port: string, pass: Pass, tensor: WireTensor): void {
    const context = this.#context;
    if (!context || !this.#generation) {
      this.#shared.onLost(pass, "");
      return;
    }
    if (!pass.plain && !this.#follow(pass)) return;
    const pending = this.#pending.get(pass.id) ?? { pass, inputs: new Map() };
    this.#pending.set(pass.id, pending);
    pending.inputs.set(port, tensor);
    if (this.#pending.size > pendingMax) this.#pending.delete(this.#pending.keys().next().value as number);
    if (!this.#inputs.every((name) => pending.inputs.has(name))) return;
    this.#pending.delete(pass.id);
    // One pass after the other: caches grow in the order of positions.
    this.#running = this.#running.then(() => this.#run(context, pending));
  }

  /** False for what is left of an earlier turn. */
  #follow(pass: Pass): boolean {
    if (isLater(this.#turn, pass)) return false;
    if (isLater(pass, this.#turn)) {
      this.#turn = pass;
      for (const [id, pending] of this.#pending) if (!pending.pass.plain) this.#pending.delete(id);
      this.#running = this.#running.then(() => this.#generation?.clear());
    }
    return true;
  }

  async #run(context: ServingContext, { pass, inputs }: Pending): Promise<void> {
    const generation = this.#generation;
    if (!generation || this.#stopping.signal.aborted || (!pass.plain && isLater(this.#turn, pass))) return;
    const { clock } = this.#shared.world;
    const startedMs = clock.monotonicMs();
    this.#lastPassMs = startedMs;
    this.#watchForIdleness();
    for (const request of pass.dropped) generation.drop(request);
    try {
      const feeds = Object.fromEntries([...inputs].map(([port, tensor]) => [port, open(tensor)]));
      const results = await this.#compute(generation, pass, feeds);
      if (context.head === this.assignment.vnode) this.#shared.onOutputs(pass, results);
      this.#handOn(context, pass, results);
      generation.recycle(Object.values(results));
      this.#passes++;
      this.#passMs = clock.monotonicMs() - startedMs;
    } catch (error) {
      const reason = messageOf(error);
      const mayPass = outlookOf(error) === "passing";
      if (!mayPass) this.#shared.world.log("warn", `pass ${pass.id} failed at ${this.assignment.vnode}: ${reason}`);
      this.#shared.onLost(pass, mayPass ? "" : `VNode ${this.assignment.vnode}: ${reason}`);
    }
  }

  #watchForIdleness(): void {
    const { clock, timers } = this.#shared.world;
    this.#idleTimer ??= timers.after(idleMs, () => {
      this.#idleTimer = undefined;
      if (clock.monotonicMs() - this.#lastPassMs < idleMs) this.#watchForIdleness();
      else this.#running = this.#running.then(() => this.#generation?.clear());
    });
  }

  async #compute(
    generation: VNodeGeneration,
    pass: Pass,
    feeds: Readonly<Record<string, Tensor>>,
  ): Promise<Record<string, Tensor>> {
    if (pass.plain) return generation.forward(feeds, Object.values(feeds)[0]?.shape[0] ?? 1);
    if (pass.rows.length === 0) return {};
    return generation.run({ rows: pass.rows, tokens: pass.rows[0]?.tokens ?? 1 }, feeds);
  }

  #handOn({ replica }: ServingContext, pass: Pass, results: Readonly<Record<string, Tensor>>): void {
    for (const { to, toPort, fromPort, wire, shape, id } of this.#onward) {
      const tensor = results[fromPort] ?? { ...nothing(wire), shape: [0, 1, ...shape.slice(1)] };
      const packed = pack(tensor, wire, `${id} in pass ${pass.id}`);
      this.#shared.send(this.assignment, { session: replica, vnode: to, port: toPort }, pass, packed);
    }
  }

  progress() {
    const { session, vnode, epoch } = this.assignment;
    const phase = this.#trouble ? "failed" : this.ready ? "serving" : "loading";
    return {
      ...{ session, vnode, epoch: BigInt(epoch), step: BigInt(this.#passes), phase, detail: this.#trouble },
      stepMs: this.#passMs,
      retainedBytes: 0n,
      noRoom: this.#noRoom,
    };
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#idleTimer?.();
    await this.#running;
    this.#generation?.close();
  }
}

/** A pass comes with as many rows and tokens as it says, explicit tensors with as many samples as they have. */
function shapeIn(planned: Shape, pass: Pass, samples: number): Shape {
  if (pass.plain) return [Math.min(samples, samplesMax), ...planned];
  const tokens = pass.rows[0]?.tokens ?? 1;
  if (pass.rows.length > 1 && tokens > 1) fail("invalid_argument", "prompts come one by one");
  if (tokens > (planned[0] ?? 0)) fail("invalid_argument", `${tokens} tokens are more than the model takes`);
  return [pass.rows.length, tokens, ...planned.slice(1)];
}

/** What a pass without rows hands on. */
function nothing(wire: WireType): Pick<Tensor, "dtype" | "data"> {
  return wire === "int32"
    ? { dtype: "int32", data: new Int32Array(0) }
    : { dtype: "float32", data: new Float32Array(0) };
}
