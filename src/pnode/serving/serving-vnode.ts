// One VNode that answers: loads its weights, runs passes in the order they become complete, hands results on.

import { fail, hasCode, messageOf } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { World } from "../../core/world.ts";
import type { Executor } from "../../engine/engine.ts";
import type { VNodePlan } from "../../network/plan.ts";
import { VNodeGeneration } from "../../vnode/serving/generation.ts";
import { ServingWeights, type WantedWeight } from "../../vnode/serving/weights.ts";
import { open, seal, type WireTensor } from "../../vnode/wire.ts";
import type { Assignment } from "../assignment.ts";
import type { Pass, PassTarget } from "./pass.ts";
import type { ServingContext } from "./serving-context.ts";

export interface ServingShared {
  readonly world: World;
  readonly signal: AbortSignal;
  readonly context: Promise<ServingContext>;
  readonly executor: (context: ServingContext) => Promise<Executor>;
  readonly fetch: (hash: string) => Promise<Uint8Array>;
  readonly send: (target: PassTarget, pass: Pass, tensor: WireTensor) => void;
  /** At the head only. */
  readonly onOutputs: (pass: Pass, outputs: Readonly<Record<string, Tensor>>) => void;
  /** The pass cannot be finished here. */
  readonly onLost: (pass: Pass) => void;
}

interface Pending {
  readonly pass: Pass;
  readonly inputs: Map<string, WireTensor>;
}

/** Passes of which only some inputs came; more would mean that a peer misbehaves. */
const pendingMax = 256;

export class ServingVNode {
  readonly assignment: Assignment;
  readonly #shared: ServingShared;
  readonly #pending = new Map<number, Pending>();
  #generation: VNodeGeneration | undefined;
  #context: ServingContext | undefined;
  #running: Promise<void> = Promise.resolve();
  #trouble = "";
  #passes = 0;
  #passMs = 0;
  #stopped = false;

  constructor(assignment: Assignment, shared: ServingShared) {
    this.assignment = assignment;
    this.#shared = shared;
    this.#running = this.#load();
  }

  async #load(): Promise<void> {
    try {
      const context = await this.#shared.context;
      const vnode = context.vnode(this.assignment.vnode);
      const executor = await this.#shared.executor(context);
      const weights = await ServingWeights.load(await this.#wanted(context, vnode), executor);
      const name = `serve/${context.session}/${vnode.id}/${this.assignment.epoch}`;
      this.#generation = new VNodeGeneration(context.plan, vnode, executor, weights, name);
      this.#context = context;
      if (this.#stopped) this.#generation.close();
    } catch (error) {
      this.#trouble = messageOf(error);
      this.#shared.world.log("error", `VNode ${this.assignment.vnode} cannot serve: ${this.#trouble}`);
    }
  }

  async #wanted(context: ServingContext, vnode: VNodePlan): Promise<WantedWeight[]> {
    const wanted: WantedWeight[] = [];
    if (vnode.parameters.length > 0) {
      const file = await this.#shared.fetch(context.stateOf(vnode.id));
      for (const { name, shape, precision } of vnode.parameters)
        wanted.push({ name, stored: name, shape, precision, file });
    }
    // Tied weights come from the publisher's own state: they never change while a model serves.
    for (const edge of context.plan.edges) {
      if (edge.kind !== "tie" || edge.to !== vnode.id) continue;
      const file = await this.#shared.fetch(context.stateOf(edge.from));
      const published = context.vnode(edge.from).parameters.find(({ name }) => name === edge.fromPort);
      const precision = published?.precision ?? "float32";
      wanted.push({ name: edge.toPort, stored: edge.fromPort, shape: edge.shape, precision, file });
    }
    return wanted;
  }

  get ready(): boolean {
    return this.#generation !== undefined;
  }

  elementsMax(port: string, pass: Pass): number {
    const plan = this.#context?.vnode(this.assignment.vnode).inputs.find(({ name }) => name === port);
    if (!plan) fail("unavailable", `VNode ${this.assignment.vnode} is still loading, or has no input ${port}`);
    const samples = pass.plain ? 1_024 : Math.max(1, pass.rows.length);
    return samples * plan.shape.reduce((product, size) => product * size, 1);
  }

  accept(port: string, pass: Pass, tensor: WireTensor): void {
    const context = this.#context;
    if (!context || !this.#generation) {
      this.#shared.onLost(pass);
      return;
    }
    const pending = this.#pending.get(pass.id) ?? { pass, inputs: new Map() };
    this.#pending.set(pass.id, pending);
    pending.inputs.set(port, tensor);
    if (this.#pending.size > pendingMax) this.#pending.delete(this.#pending.keys().next().value as number);
    const needed = context
      .vnode(this.assignment.vnode)
      .inputs.filter(({ kind, source }) => kind === "activation" && source !== "labels");
    if (!needed.every(({ name }) => pending.inputs.has(name))) return;
    this.#pending.delete(pass.id);
    // One pass after the other: caches grow in the order of positions.
    this.#running = this.#running.then(() => this.#run(context, pending));
  }

  async #run(context: ServingContext, { pass, inputs }: Pending): Promise<void> {
    const generation = this.#generation;
    if (!generation || this.#stopped) return;
    const { clock } = this.#shared.world;
    const startedMs = clock.monotonicMs();
    for (const request of pass.dropped) generation.drop(request);
    try {
      const feeds = Object.fromEntries([...inputs].map(([port, tensor]) => [port, open(tensor)]));
      const results = pass.plain
        ? await generation.forward(feeds, Object.values(feeds)[0]?.shape[0] ?? 1)
        : await generation.run({ rows: pass.rows, tokens: pass.rows[0]?.tokens ?? 1 }, feeds);
      if (context.head === this.assignment.vnode) this.#shared.onOutputs(pass, results);
      this.#handOn(context, pass, results);
      generation.recycle(Object.values(results));
      this.#passes++;
      this.#passMs = clock.monotonicMs() - startedMs;
    } catch (error) {
      // A cache that is not there is rebuilt; anything else is said aloud.
      if (!hasCode(error, "aborted"))
        this.#shared.world.log("warn", `pass ${pass.id} failed at ${this.assignment.vnode}: ${messageOf(error)}`);
      this.#shared.onLost(pass);
    }
  }

  #handOn({ plan, needed, session }: ServingContext, pass: Pass, results: Readonly<Record<string, Tensor>>): void {
    for (const edge of plan.edges) {
      const tensor = results[edge.fromPort];
      if (edge.from !== this.assignment.vnode || edge.kind !== "activation" || !needed.has(edge.to) || !tensor)
        continue;
      const { payload } = seal(tensor, edge.wire, `${edge.id} in pass ${pass.id}`);
      this.#shared.send({ session, vnode: edge.to, port: edge.toPort }, pass, payload);
    }
  }

  progress() {
    const { session, vnode, epoch } = this.assignment;
    const phase = this.#trouble ? "failed" : this.ready ? "serving" : "loading";
    return {
      ...{ session, vnode, epoch: BigInt(epoch), step: BigInt(this.#passes), phase, detail: this.#trouble },
      stepMs: this.#passMs,
      retainedBytes: 0n,
    };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    this.#generation?.close();
  }
}
