// Trains a plan in one process, in the plainest way: for tests that ask whether graphs compute what they should.
// No messages, no workers; ties, chances, half precisions and sparse rows as a VNode applies them.

import { roundToBfloat16, roundToFloat16 } from "../../core/numbers/half.ts";
import { fromInt8, toInt8 } from "../../core/numbers/int8.ts";
import { fillChance, fillNormal, fillUniform, randomKey } from "../../core/numbers/random.ts";
import type { WireType } from "../../core/numbers/wire-types.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import type { Engine, Program } from "../../engine/engine.ts";
import type { InitialPlan, OptimizerPlan, Plan, TrainingGraphs, VNodePlan } from "../plan.ts";
import { buildEvaluation, buildTraining } from "./graphs.ts";

export interface Sample {
  readonly inputs?: Tensor;
  readonly labels?: Tensor;
}

interface Loaded {
  readonly vnode: VNodePlan;
  readonly graphs: TrainingGraphs;
  readonly forward: Program;
  readonly backward: Program | undefined;
}

export interface TrainerOptions {
  readonly engine: Engine;
  readonly plan: Plan;
  readonly microbatch: number;
  readonly microbatches?: number;
  readonly seed?: number;
  readonly rate?: number | ((step: number) => number);
  readonly weights?: ReadonlyMap<string, Floats>;
  /** Weights in float64, for the reference engine in float64 mode. */
  readonly double?: boolean;
}

type Floats = Float32Array | Float64Array;

export class LocalTrainer {
  readonly weights: Map<string, Floats>;
  /** Of the last step, by parameter name. */
  readonly gradients = new Map<string, Floats>();
  readonly #options: Required<Omit<TrainerOptions, "weights">>;
  readonly #loaded: Loaded[];
  readonly #moments = new Map<string, { first: Float64Array; second: Float64Array }>();
  #step = 0;

  private constructor(
    options: Required<Omit<TrainerOptions, "weights">>,
    loaded: Loaded[],
    weights: Map<string, Floats>,
  ) {
    this.#options = options;
    this.#loaded = loaded;
    this.weights = weights;
  }

  static async open(given: TrainerOptions): Promise<LocalTrainer> {
    const { weights: initial, ...rest } = given;
    const options = { microbatches: 1, seed: 1, rate: 1e-2, double: false, ...rest };
    const { engine, plan, microbatch, microbatches } = options;
    const weights = new Map<string, Floats>();
    const loaded: Loaded[] = [];
    for (const id of plan.order) {
      const vnode = plan.vnodes.find((each) => each.id === id)!;
      for (const parameter of vnode.parameters) {
        const values =
          initial?.get(parameter.name) ??
          initialValues(parameter.name, parameter.shape, parameter.initial, options.seed);
        weights.set(parameter.name, options.double ? Float64Array.from(values) : Float32Array.from(values));
      }
      const graphs = buildTraining(plan, vnode, { microbatch, lossScale: 1 / microbatches });
      const backward = graphs.backward && (await engine.load(graphs.backward));
      loaded.push({ vnode, graphs, forward: await engine.load(graphs.forward), backward });
    }
    return new LocalTrainer(options, loaded, weights);
  }

  /** One update; gives the mean loss of its microbatches. */
  async step(batches: readonly Sample[]): Promise<number> {
    const loss = await this.differentiate(batches);
    for (const { vnode } of this.#loaded)
      for (const { name, decay } of vnode.parameters) this.#update(name, vnode.optimizer, decay);
    this.#step++;
    return loss;
  }

  /** Gradients without an update. */
  async differentiate(batches: readonly Sample[]): Promise<number> {
    this.gradients.clear();
    for (const [name, values] of this.weights) this.gradients.set(name, new Float64Array(values.length));
    let loss = 0;
    for (const [micro, sample] of batches.entries()) loss += await this.#microbatch(sample, micro);
    return loss / batches.length;
  }

  async #microbatch(sample: Sample, micro: number): Promise<number> {
    const { plan } = this.#options;
    const messages = new Map<string, Tensor>();
    const kept = new Map<string, { feeds: Record<string, Tensor>; results: Record<string, Tensor> }>();
    let loss = 0;
    for (const { vnode, forward } of this.#loaded) {
      const feeds = this.#feeds(vnode, sample, messages, micro);
      const results = { ...(await forward.run(feeds)) };
      kept.set(vnode.id, { feeds, results });
      for (const edge of plan.edges)
        if (edge.from === vnode.id && edge.kind === "activation")
          messages.set(edge.toPort, rounded(results[edge.fromPort]!, edge.wire));
      if (vnode.loss !== undefined) loss += Number(results[vnode.loss]!.data[0]);
    }
    for (const loaded of this.#loaded.toReversed()) await this.#backward(loaded, kept.get(loaded.vnode.id)!, messages);
    return loss;
  }

  async #backward(
    { vnode, graphs, backward }: Loaded,
    { feeds, results }: { feeds: Record<string, Tensor>; results: Record<string, Tensor> },
    messages: Map<string, Tensor>,
  ): Promise<void> {
    if (vnode.role === "passes") return;
    let gradients = results;
    if (backward !== undefined && graphs.backward !== undefined) {
      const all: Record<string, Tensor> = { ...feeds, ...results };
      for (const port of vnode.outputs)
        if (port.gradient) all[`grad:${port.name}`] = messages.get(`grad:${port.name}`)!;
      gradients = await backward.run(Object.fromEntries(graphs.backward.inputs.map(({ name }) => [name, all[name]!])));
    }
    for (const edge of this.#options.plan.edges) {
      if (edge.to !== vnode.id || !edge.gradient) continue;
      const gradient = rounded(gradients[`grad:${edge.toPort}`]!, edge.wire);
      if (edge.kind === "tie") addTo(this.gradients.get(edge.fromPort)!, gradient.data as Floats);
      else messages.set(`grad:${edge.toPort}`, gradient);
    }
    for (const { name } of vnode.parameters) {
      const gradient = gradients[`grad:${name}`];
      if (gradient !== undefined) addTo(this.gradients.get(name)!, gradient.data as Floats);
    }
    for (const { parameter, ids, gradient } of graphs.sparse) {
      const into = this.gradients.get(parameter)!;
      const rows = gradients[gradient]!;
      const width = rows.shape[1]!;
      const picked = feeds[ids]!.data;
      for (let i = 0; i < picked.length; i++)
        addTo(
          into.subarray(Number(picked[i]) * width, (Number(picked[i]) + 1) * width),
          rows.data.subarray(i * width, (i + 1) * width) as Floats,
        );
    }
  }

  #feeds(
    vnode: VNodePlan,
    sample: Sample,
    messages: ReadonlyMap<string, Tensor>,
    micro: number,
  ): Record<string, Tensor> {
    const { plan, microbatch, seed } = this.#options;
    const feeds: Record<string, Tensor> = {};
    for (const port of vnode.inputs) {
      if (port.source !== "edge") feeds[port.name] = sample[port.source]!;
      else if (port.kind === "activation") feeds[port.name] = messages.get(port.name)!;
      else {
        const edge = plan.edges.find((each) => each.id === port.name)!;
        feeds[port.name] = rounded(floatTensor(port.shape, this.weights.get(edge.fromPort)!), edge.wire);
      }
    }
    for (const { name, shape, precision } of vnode.parameters)
      feeds[name] = rounded(floatTensor(shape, this.weights.get(name)!), precision);
    for (const chance of vnode.chances) {
      const shape = [microbatch, ...chance.shape];
      const data = new Float32Array(elementCount(shape));
      fillChance(
        data,
        randomKey("chance", seed, this.#step, micro, chance.name),
        chance.rate,
        chance.keepValue,
        chance.dropValue,
      );
      feeds[chance.name] = floatTensor(shape, data);
    }
    return feeds;
  }

  #update(name: string, optimizer: OptimizerPlan, decay: boolean): void {
    const weights = this.weights.get(name)!;
    const gradient = this.gradients.get(name)!;
    const moments = this.#moments.get(name) ?? {
      first: new Float64Array(weights.length),
      second: new Float64Array(weights.length),
    };
    this.#moments.set(name, moments);
    const { first, second } = moments;
    const given = this.#options.rate;
    const rate = typeof given === "number" ? given : given(this.#step);
    const weightDecay = decay ? optimizer.weightDecay : 0;
    for (let i = 0; i < weights.length; i++) {
      const coupled = gradient[i]! + (optimizer.kind === "adamw" ? 0 : weightDecay * weights[i]!);
      if (optimizer.kind === "sgd") {
        first[i] = optimizer.momentum * first[i]! + coupled;
        weights[i]! -= rate * first[i]!;
        continue;
      }
      const { beta1, beta2, epsilon } = optimizer;
      if (optimizer.kind === "adamw") weights[i]! -= rate * weightDecay * weights[i]!;
      first[i] = beta1 * first[i]! + (1 - beta1) * coupled;
      second[i] = beta2 * second[i]! + (1 - beta2) * coupled * coupled;
      const mean = first[i]! / (1 - beta1 ** (this.#step + 1));
      const variance = second[i]! / (1 - beta2 ** (this.#step + 1));
      weights[i]! -= (rate * mean) / (Math.sqrt(variance) + epsilon);
    }
  }

  /** The scalars of evaluation: loss, correct, counted. */
  async evaluate(sample: Sample): Promise<Record<string, number>> {
    const { plan, engine, microbatch } = this.#options;
    const messages = new Map<string, Tensor>();
    const measures: Record<string, number> = {};
    for (const { vnode } of this.#loaded) {
      const graph = buildEvaluation(plan, vnode, { microbatch });
      const program = await engine.load(graph);
      const feeds = this.#feeds(vnode, sample, messages, 0);
      const results = await program.run(Object.fromEntries(graph.inputs.map(({ name }) => [name, feeds[name]!])));
      for (const edge of plan.edges)
        if (edge.from === vnode.id && edge.kind === "activation")
          messages.set(edge.toPort, rounded(results[edge.fromPort]!, edge.wire));
      for (const name of ["loss", "correct", "counted"])
        if (results[name] !== undefined) measures[name] = (measures[name] ?? 0) + Number(results[name].data[0]);
      await program.release();
    }
    return measures;
  }
}

export function initialValues(
  name: string,
  shape: readonly number[],
  initial: InitialPlan,
  seed: number,
): Float32Array {
  const values = new Float32Array(elementCount(shape));
  const key = randomKey("initial", seed, name);
  if (initial.kind === "constant") values.fill(initial.value);
  else if (initial.kind === "normal") fillNormal(values, key, initial.deviation);
  else fillUniform(values, key, -initial.bound, initial.bound);
  return values;
}

function floatTensor(shape: readonly number[], data: Floats): Tensor {
  return { dtype: data instanceof Float64Array ? "float64" : "float32", shape, data };
}

function rounded(tensor: Tensor, wire: WireType): Tensor {
  if (wire === "int8")
    return { ...tensor, data: fromInt8(toInt8(tensor.data as Float32Array, tensor.shape), tensor.shape) };
  if (wire !== "float16" && wire !== "bfloat16") return tensor;
  const round = wire === "float16" ? roundToFloat16 : roundToBfloat16;
  return { ...tensor, data: (tensor.data as Float32Array).map(round) };
}

function addTo(into: Floats, values: Floats): void {
  for (let i = 0; i < values.length; i++) into[i]! += values[i]!;
}

/** Random samples that fit a plan. */
export function randomSample(plan: Plan, microbatch: number, seed: string | number): Sample {
  const field = (what: "inputs" | "labels"): Tensor | undefined => {
    const data = plan[what];
    if (data === undefined) return undefined;
    const shape = [microbatch, ...data.shape];
    const floats = new Float32Array(elementCount(shape));
    fillUniform(floats, randomKey("sample", seed, what), data.wire === "int32" ? 0 : -1, 1);
    if (data.wire === "float32") return { dtype: "float32", shape, data: floats };
    return { dtype: "int32", shape, data: Int32Array.from(floats, (value) => Math.floor(value * (data.below ?? 8))) };
  };
  const [inputs, labels] = [field("inputs"), field("labels")];
  return { ...(inputs && { inputs }), ...(labels && { labels }) };
}
