// One microbatch of one VNode on an executor: forward, backward, and what lies between them. Microbatches may run side by
// side on several workers; the result never depends on how many there are.

import { assert } from "../core/assert.ts";
import { sha256 } from "../core/hash.ts";
import type { Tensor } from "../core/tensor.ts";
import { isDevice } from "../engine/pool/seat.ts";
import type { GraphModel } from "../graph/model.ts";
import { laneShare } from "../network/lanes.ts";
import type { PortPlan, VNodePlan } from "../network/plan.ts";
import { samplesOf } from "../network/settings/session.ts";
import type { ComputeOptions } from "./compute.ts";
import type { ByPort, Measures, PortGradient } from "./effects.ts";
import { collectFeeds, type FeedOptions, type Pass } from "./feeds.ts";
import type { Gradients, SparseRows } from "./gradients.ts";
import type { Layout } from "./layout.ts";
import { warmUp } from "./warm-up.ts";
import { giveBack, type MessageMemory, open, packInPlace, type WireTensor, zeros } from "./wire.ts";
import type { WorkingWeights } from "./working-weights.ts";

/** Backward work goes first: it frees memory and lets others go on. */
const priorities = { update: 3, backward: 2, forward: 1, evaluation: 0 } as const;

interface Kept {
  readonly feeds: Record<string, Tensor>;
  readonly saved: Record<string, Tensor>;
}

/** What passes work on besides the graphs. */
export interface PassParts {
  readonly layout: Layout;
  readonly gradients: Gradients;
  readonly working: WorkingWeights;
  readonly memory: MessageMemory;
}

export class Passes {
  readonly #options: ComputeOptions;
  readonly #feedOptions: FeedOptions;
  /** Of one microbatch. */
  readonly #samples: number;
  readonly #gradients: Gradients;
  readonly #working: WorkingWeights;
  readonly #memory: MessageMemory;
  readonly #kept = new Map<number, Kept>();
  /** Gradients of embedding rows between backward and their addition. */
  readonly #rows = new Map<number, SparseRows[]>();
  /** Output ports whose value is another's: it is sent to several VNodes, and lies in memory once. */
  readonly #twins: ReadonlyMap<string, string>;
  readonly #forwardNames: ReadonlySet<string>;
  /** What the forward graph gives for the backward graph alone. */
  readonly #saved: readonly string[];
  readonly #evaluationNames: ReadonlySet<string>;
  readonly #forwardWeights: Readonly<Record<string, Tensor>>;
  readonly #evaluationWeights: Readonly<Record<string, Tensor>>;
  /** Outputs that lie in gradient blocks, not in the executor's pool. */
  readonly #blockNames: ReadonlySet<string>;

  constructor(options: ComputeOptions, { layout, gradients, working, memory }: PassParts) {
    const { plan, executor, training, evaluation, name, batches, data = {} } = options;
    const { seed } = options.settings;
    this.#options = options;
    this.#gradients = gradients;
    this.#working = working;
    this.#memory = memory;
    this.#samples = samplesOf(options.settings);
    this.#twins = twinsAmong(plan.outputs, training.forward, evaluation);
    this.#feedOptions = {
      plan,
      executor,
      batches,
      seed,
      samples: this.#samples,
      data,
      share: shareOf(options),
      microbatches: options.settings.microbatches,
    };
    this.#forwardNames = new Set(training.forward.inputs.map((input) => input.name));
    const backwardNames = new Set(training.backward?.inputs.map((input) => input.name));
    this.#saved = training.saved.map((value) => value.name).filter((saved) => backwardNames.has(saved));
    this.#evaluationNames = new Set(evaluation?.inputs.map((input) => input.name));
    this.#forwardWeights = working.named(this.#forwardNames);
    this.#evaluationWeights = working.named(this.#evaluationNames);
    this.#blockNames = new Set([...layout.parameters, ...layout.ties].map((place) => `grad:${place.name}`));
    executor.register(`${name}/forward`, training.forward);
    if (training.backward !== undefined) executor.register(`${name}/backward`, training.backward);
    if (evaluation !== undefined) executor.register(`${name}/evaluation`, evaluation);
  }

  /**
   * Nothing on a CPU. A GPU compiles what a graph needs when it first runs: better before the VNode says that it is there. Gives the hash
   * of what came out: machines of one class come to the same. CUDA too chooses its kernels by shapes.
   */
  async warmUp(): Promise<string | undefined> {
    const { executor, name, training, evaluation } = this.#options;
    if (!isDevice(executor.kind) && executor.kind !== "cuda") return undefined;
    const found: string[] = [];
    const keep = [...this.#saved, ...this.#blockNames];
    const graphs = { forward: training.forward, backward: training.backward, evaluation };
    for (const [kind, graph] of Object.entries(graphs))
      if (graph !== undefined)
        found.push(await warmUp(executor, `${name}/${kind}`, graph, kind === "evaluation" ? [] : keep));
    return sha256(found.join());
  }

  /** Takes the inputs over; whoever gets the outputs holds them, each different one once. */
  async forward(
    pass: Pass,
    inputs: ByPort<WireTensor>,
  ): Promise<{ outputs: Map<string, WireTensor>; measures: Measures }> {
    const evaluating = pass.mode === "evaluation";
    const wanted = evaluating ? this.#evaluationNames : this.#forwardNames;
    const feeds = await collectFeeds(this.#feedOptions, pass, inputs, wanted);
    const results = evaluating ? await this.#evaluate(feeds) : await this.#train(pass.microbatch, feeds);
    const saved = evaluating ? {} : this.#kept.get(pass.microbatch)!.saved;
    const measures = measuresOf(results, this.#options.plan);
    const outputs = new Map<string, WireTensor>();
    const sent: Record<string, Tensor> = {};
    for (const { name, wire } of this.#options.plan.outputs) {
      const twin = outputs.get(this.#twins.get(name) ?? "");
      const packed = twin ?? packInPlace(results[name]!, wire, this.#where(pass.step, name), this.#memory);
      outputs.set(name, packed);
      if (twin !== undefined || packed.memory === undefined) continue;
      sent[name] = results[name]!;
      // What backward needs as well has two holders.
      if (saved[name] !== undefined) this.#options.executor.share(saved[name]);
    }
    this.#recycle(results, { ...saved, ...sent });
    return { outputs, measures };
  }

  async #evaluate(feeds: Record<string, Tensor>): Promise<Record<string, Tensor>> {
    const { executor, name } = this.#options;
    const all = { ...feeds, ...this.#evaluationWeights };
    try {
      return await executor.run(`${name}/evaluation`, all, { priority: priorities.evaluation, finite: true });
    } finally {
      executor.recycle(Object.values(feeds));
    }
  }

  async #train(microbatch: number, feeds: Record<string, Tensor>): Promise<Record<string, Tensor>> {
    const { executor, name, training } = this.#options;
    // Without a backward graph the forward graph gives the gradients in one go.
    const oneGo = training.backward === undefined && this.#options.plan.role !== "passes";
    const into = oneGo ? this.#gradients.openBlock(microbatch) : undefined;
    const all = { ...feeds, ...this.#forwardWeights };
    const finite = unproven(training.forward, into);
    const results = await this.#orGiveBack(feeds, () =>
      executor.run(`${name}/forward`, all, { into, priority: priorities.forward, finite, keep: this.#saved }),
    );
    const ports = this.#options.plan.outputs.filter((port) => this.#saved.includes(port.name));
    if (ports.length > 0) await executor.download(ports.map((port) => results[port.name]!));
    const saved: Record<string, Tensor> = {};
    for (const { name: output } of training.saved) if (results[output]) saved[output] = results[output];
    this.#kept.set(microbatch, { feeds, saved });
    return results;
  }

  /** Takes the gradients over; whoever gets those of its inputs holds them. */
  async backward(
    pass: Pass,
    gradients: readonly PortGradient<WireTensor>[],
  ): Promise<{ gradients: Map<string, WireTensor> }> {
    const { microbatch, step } = pass;
    const kept = this.#kept.get(microbatch);
    assert(kept !== undefined, `microbatch ${microbatch} ran forward before backward`);
    this.#kept.delete(microbatch);
    const results = await this.#differentiate(microbatch, kept, gradients);
    const given = new Map<string, WireTensor>();
    const sent: Record<string, Tensor> = {};
    for (const { name, wire, shape, gradient: flows, kind } of this.#options.plan.inputs) {
      if (!flows || kind === "tie") continue;
      const gradient = results[`grad:${name}`] ?? zeros([this.#samples, ...shape]);
      const packed = packInPlace(gradient, wire, this.#where(step, `gradient of ${name}`), this.#memory);
      given.set(name, packed);
      if (packed.memory) sent[`grad:${name}`] = gradient;
    }
    const rows = this.#options.training.sparse.map(({ parameter, ids, gradient }) => ({
      parameter,
      ids: kept.feeds[ids] as Tensor,
      rows: results[gradient] as Tensor,
    }));
    this.#rows.set(microbatch, rows);
    const sparse = this.#options.training.sparse.map(({ gradient }) => [gradient, zeros([0])]);
    const apart = { ...Object.fromEntries(sparse), ...sent };
    this.#recycle(results, apart);
    this.#recycle(kept.saved, { ...results, ...apart });
    this.#options.executor.recycle(Object.values(kept.feeds));
    return { gradients: given };
  }

  async #differentiate(
    microbatch: number,
    kept: Kept,
    gradients: readonly PortGradient<WireTensor>[],
  ): Promise<Record<string, Tensor>> {
    const { executor, name, training, plan } = this.#options;
    const { backward } = training;
    if (backward === undefined) return kept.saved;
    const outside: Record<string, Tensor> = {};
    for (const port of plan.outputs) {
      // A port feeds one edge: there is one gradient, or none where nobody learns behind it.
      const gradient = gradients.find((one) => one.port === port.name);
      outside[`grad:${port.name}`] = gradient ? open(gradient.payload) : zeros([this.#samples, ...port.shape]);
    }
    const feeds: Record<string, Tensor> = {};
    for (const { name: input } of backward.inputs)
      feeds[input] = (kept.saved[input] ?? outside[input] ?? kept.feeds[input] ?? this.#working.all[input]) as Tensor;
    const into = this.#gradients.openBlock(microbatch);
    const finite = unproven(backward, into);
    try {
      return await executor.run(`${name}/backward`, feeds, { into, priority: priorities.backward, finite });
    } finally {
      for (const { payload } of gradients) giveBack(payload);
    }
  }

  accumulate(microbatch: number): void {
    this.#gradients.add(microbatch, this.#rows.get(microbatch) ?? []);
    this.#rows.delete(microbatch);
  }

  /** Gives back what microbatches left behind; nothing of them runs any more. */
  close(): void {
    const { executor, name } = this.#options;
    for (const graph of ["forward", "backward", "evaluation"]) executor.unregister(`${name}/${graph}`);
    for (const { saved, feeds } of this.#kept.values())
      executor.recycle([...Object.values(saved), ...Object.values(feeds)]);
  }

  #recycle(tensors: Record<string, Tensor>, except: Record<string, Tensor>): void {
    const own: Tensor[] = [];
    for (const name of Object.keys(tensors))
      if (except[name] === undefined && !this.#blockNames.has(name)) own.push(tensors[name] as Tensor);
    this.#options.executor.recycle(own);
  }

  async #orGiveBack<T>(feeds: Record<string, Tensor>, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      this.#options.executor.recycle(Object.values(feeds));
      throw error;
    }
  }

  #where(step: number, what: string): string {
    return `${what} (VNode ${this.#options.plan.id}, step ${step})`;
  }
}

/** Which of a step's microbatches are this copy's; evaluation counts from where its training ends. */
function shareOf({ copy, settings }: ComputeOptions): FeedOptions["share"] {
  const { lane = 0, lanes = 1 } = copy ?? {};
  const { microbatches, validationMicrobatches } = laneShare({ ...settings, lanes });
  return {
    training: { first: lane * microbatches, count: microbatches },
    evaluation: { first: lane * validationMicrobatches, count: validationMicrobatches },
  };
}

/** Ports that every graph gives as a mere repetition of another port of the same type, with that other one. */
function twinsAmong(
  outputs: readonly PortPlan[],
  training: GraphModel,
  evaluation: GraphModel = training,
): ReadonlyMap<string, string> {
  const wires = new Map(outputs.map(({ name, wire }) => [name, wire]));
  const repeats = ({ nodes }: GraphModel, port: string) => {
    const node = nodes.find((candidate) => candidate.outputs.includes(port));
    return node?.op === "Identity" ? node.inputs[0] : undefined;
  };
  const twins = new Map<string, string>();
  for (const { name, wire } of outputs) {
    const other = repeats(training, name);
    if (other !== undefined && repeats(evaluation, name) === other && wires.get(other) === wire) twins.set(name, other);
  }
  return twins;
}

/** Outputs to be looked at for NaN. Gradients of weights are not among them: their norm or their seal tells. */
function unproven(graph: GraphModel, blocks: Readonly<Record<string, Tensor>> = {}): string[] {
  return graph.outputs.map((output) => output.name).filter((name) => blocks[name] === undefined);
}

/** Single numbers that are not ports: the loss, and what evaluation counts. */
function measuresOf(results: Readonly<Record<string, Tensor>>, plan: VNodePlan): Measures {
  const ports = new Set([...plan.outputs, ...plan.results].map((port) => port.name));
  const measures: Record<string, number> = {};
  for (const [name, { data }] of Object.entries(results))
    if (data.length === 1 && !ports.has(name) && (name === plan.loss || measured.has(name)))
      measures[name] = Number(data[0]);
  return measures;
}

/** Numbers that evaluation graphs give beside the loss. */
const measured: ReadonlySet<string> = new Set(["loss", "correct", "counted"]);
