// Trains a network in one process through the real path: definition, compile, VNodes on an executor. What is left out is
// what a network of machines adds: streams, leases, checkpoints.

import type { EdgeId, VNodeId } from "../src/core/ids.ts";
import type { Tensor } from "../src/core/tensor.ts";
import type { Executor } from "../src/engine/engine.ts";
import { compileText } from "../src/network/compile.ts";
import { buildTraining } from "../src/network/graphs/graphs.ts";
import type { Plan, PlanEdge } from "../src/network/plan.ts";
import { VNodeCompute } from "../src/vnode/compute.ts";
import { giveBack, lend, type WireTensor } from "../src/vnode/wire.ts";
import { sampleOf } from "./workloads.ts";

export interface TrainerOptions {
  readonly definition: string;
  readonly executor: Executor;
  readonly batch: number;
  readonly microbatches?: number;
}

export class Trainer {
  readonly plan: Plan;
  readonly #vnodes = new Map<VNodeId, VNodeCompute>();
  readonly #microbatches: number;
  #step = 0;

  private constructor(plan: Plan, microbatches: number) {
    this.plan = plan;
    this.#microbatches = microbatches;
  }

  static async open({ definition, executor, batch, microbatches = 1 }: TrainerOptions): Promise<Trainer> {
    const plan = compileText(definition);
    const trainer = new Trainer(plan, microbatches);
    const samples = batch / microbatches;
    const fields: Record<string, Tensor> = {};
    if (plan.inputs) fields["inputs"] = sampleOf(plan.inputs, samples, "inputs", 10);
    if (plan.labels) fields["labels"] = sampleOf(plan.labels, samples, "labels", 10);
    const batches = { field: async (name: "inputs" | "labels") => fields[name] as Tensor };
    for (const vnode of plan.vnodes) {
      const training = buildTraining(plan, vnode, { microbatch: samples, lossScale: 1 / microbatches });
      const learningRate = { schedule: "constant", base: 1e-3, warmupSteps: 0, finalShare: 0 } as const;
      const settings = { seed: 1, steps: 1, batch, microbatches, validationMicrobatches: 0, clipNorm: 0, learningRate };
      const compute = new VNodeCompute({ name: vnode.id, plan: vnode, executor, training, batches, settings });
      await compute.initialise();
      trainer.#vnodes.set(vnode.id, compute);
    }
    return trainer;
  }

  /** One step; gives the mean loss. */
  async step(): Promise<number> {
    const step = this.#step++;
    const ties = await this.#shareTies(step);
    let loss = 0;
    for (let microbatch = 0; microbatch < this.#microbatches; microbatch++)
      loss += await this.#microbatch(step, microbatch, ties);
    giveBackAll(ties.values());
    const borrowed = new Map<EdgeId, WireTensor>();
    for (const { vnode, compute } of this.#all()) {
      const edges = this.#edges("tie", (edge) => edge.to === vnode.id && edge.gradient);
      if (edges.length === 0) continue;
      const gradients = await compute.tieGradients(step);
      for (const edge of edges) borrowed.set(edge.id, gradients.get(edge.toPort)!);
    }
    for (const { vnode, compute } of this.#all()) {
      const lent = this.#edges("tie", (edge) => edge.from === vnode.id && edge.gradient);
      await compute.update(
        step,
        lent.map((edge) => ({ edge: edge.id, port: edge.fromPort, payload: borrowed.get(edge.id)! })),
      );
    }
    return loss / this.#microbatches;
  }

  async #shareTies(step: number): Promise<Map<EdgeId, WireTensor>> {
    const payloads = new Map<EdgeId, WireTensor>();
    for (const { vnode, compute } of this.#all()) {
      const edges = this.#edges("tie", (edge) => edge.from === vnode.id);
      if (edges.length === 0) continue;
      const shared = await compute.shareWeights(step, edges);
      for (const edge of edges) payloads.set(edge.id, shared.get(edge.fromPort)!);
    }
    return payloads;
  }

  async #microbatch(step: number, microbatch: number, ties: ReadonlyMap<EdgeId, WireTensor>): Promise<number> {
    const pass = { step, microbatch, mode: "training" as const };
    const messages = new Map<EdgeId, WireTensor>(ties);
    const computed: WireTensor[] = [];
    const gradients = new Map<EdgeId, WireTensor>();
    let loss = 0;
    for (const { vnode, compute } of this.#all()) {
      const into = this.plan.edges.filter((edge) => edge.to === vnode.id);
      const inputs = new Map(into.map((edge) => [edge.toPort, lend(messages.get(edge.id)!)]));
      const { outputs, measures } = await compute.forward(pass, inputs);
      for (const edge of this.#edges("activation", (edge) => edge.from === vnode.id))
        messages.set(edge.id, outputs.get(edge.fromPort)!);
      computed.push(...outputs.values());
      if (vnode.loss !== undefined) loss += measures[vnode.loss] ?? 0;
    }
    giveBackAll(computed);
    for (const { vnode, compute } of this.#all().toReversed()) {
      if (vnode.role === "passes") continue;
      const out = this.#edges("activation", (edge) => edge.from === vnode.id && edge.gradient);
      const given = out.map((edge) => ({ edge: edge.id, port: edge.fromPort, payload: gradients.get(edge.id)! }));
      const result = await compute.backward(pass, given);
      for (const edge of this.#edges("activation", (edge) => edge.to === vnode.id && edge.gradient))
        gradients.set(edge.id, result.gradients.get(edge.toPort)!);
      compute.accumulate(microbatch);
    }
    return loss;
  }

  #edges(kind: PlanEdge["kind"], match: (edge: PlanEdge) => boolean): PlanEdge[] {
    return this.plan.edges.filter((edge) => edge.kind === kind && match(edge));
  }

  #all() {
    return this.plan.order.map((id) => ({
      vnode: this.plan.vnodes.find((vnode) => vnode.id === id)!,
      compute: this.#vnodes.get(id)!,
    }));
  }

  async close(): Promise<void> {
    for (const compute of this.#vnodes.values()) await compute.close();
  }
}

/** A value for several receivers is held once. */
function giveBackAll(tensors: Iterable<WireTensor>): void {
  for (const tensor of new Set(tensors)) giveBack(tensor);
}
