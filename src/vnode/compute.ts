// The numerics of one VNode on an executor: forward, backward, accumulation, update. Microbatches may run side by
// side on several workers; the result never depends on how many there are.

import { assert } from "../core/assert.ts";
import { DcnrError } from "../core/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";
import type { GraphModel } from "../graph/model.ts";
import { laneShare } from "../network/lanes.ts";
import type { PortPlan, TrainingGraphs, VNodePlan } from "../network/plan.ts";
import { type LearningSettings, learningRateAt, samplesOf } from "../network/settings/session.ts";
import type { StateReader } from "../states/reader.ts";
import type { ByPort, Measures, PortGradient } from "./effects.ts";
import { type BatchSource, collectFeeds, type FeedOptions, type Pass } from "./feeds.ts";
import { Gradients, type SparseRows } from "./gradients.ts";
import { type Layout, layoutOf } from "./layout.ts";
import { update } from "./optimizer.ts";
import { type Added, Reduction } from "./reduce.ts";
import { Rounds } from "./rounds.ts";
import { addedUpIn, lastOfRound } from "./schedule.ts";
import { stepHash, VNodeState } from "./state.ts";
import { warmUp } from "./warm-up.ts";
import {
  giveBack,
  type MessageMemory,
  messageMemory,
  open,
  pack,
  packInPlace,
  sumInOrder,
  type WireTensor,
  zeros,
} from "./wire.ts";
import { WorkingWeights } from "./working-weights.ts";

export interface ComputeOptions {
  /** Unique among what the executor runs. */
  readonly name: string;
  /** Of the network: all copies of a VNode have one plan, one hash and one state. */
  readonly plan: VNodePlan;
  /** Which copy of it this is, where there are several. */
  readonly copy?: VNodePlan["copy"];
  readonly executor: Executor;
  readonly training: TrainingGraphs;
  /** Absent where the session never validates. */
  readonly evaluation?: GraphModel;
  readonly batches: BatchSource;
  readonly settings: LearningSettings;
  readonly data?: FeedOptions["data"];
}

/** Backward work goes first: it frees memory and lets others go on. */
const priorities = { update: 3, backward: 2, forward: 1, evaluation: 0 } as const;

interface Kept {
  readonly feeds: Record<string, Tensor>;
  readonly saved: Record<string, Tensor>;
}

export class VNodeCompute {
  readonly state: VNodeState;
  readonly #options: ComputeOptions;
  readonly #feedOptions: FeedOptions;
  /** Of one microbatch. */
  readonly #samples: number;
  readonly #layout: Layout;
  readonly #gradients: Gradients;
  readonly #working: WorkingWeights;
  readonly #reduction: Reduction | undefined;
  /** Where lanes learn apart for a while. */
  readonly #rounds: Rounds | undefined;
  readonly #kept = new Map<number, Kept>();
  /** Gradients of embedding rows between backward and their addition. */
  readonly #rows = new Map<number, SparseRows[]>();
  readonly #running = new Set<Promise<unknown>>();
  /** Where its messages lie: what it computed, and what is received for it. */
  readonly memory: MessageMemory;
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

  constructor(options: ComputeOptions) {
    const { plan, executor, training, evaluation, name, batches, data = {} } = options;
    const { seed } = options.settings;
    this.#options = options;
    this.#samples = samplesOf(options.settings);
    this.memory = messageMemory(executor);
    this.#twins = twinsAmong(plan.outputs, training.forward, evaluation);
    this.#feedOptions = { plan, executor, batches, seed, samples: this.#samples, data, share: shareOf(options) };
    const ties = plan.inputs.filter((port) => port.kind === "tie" && port.gradient);
    const source = training.backward ?? training.forward;
    const given = new Set(source.outputs.map((output) => output.name));
    const tables = training.sparse.map(({ parameter }) => parameter).filter((table) => !given.has(`grad:${table}`));
    this.#layout = layoutOf(plan, ties, new Set(tables));
    const hasRounds = options.copy !== undefined && options.settings.sync !== undefined;
    this.state = new VNodeState(plan, this.#layout, executor, hasRounds && plan.role !== "passes");
    this.#working = new WorkingWeights(plan, this.#layout, this.state, executor);
    this.#gradients = new Gradients(this.#layout, executor, given);
    if (options.copy !== undefined)
      this.#reduction = new Reduction({
        ...{ copy: options.copy, layout: this.#layout, gradients: this.#gradients, executor, memory: this.memory },
      });
    if (hasRounds && this.#layout.weightLength > 0 && plan.role !== "passes")
      this.#rounds = new Rounds(this.state, this.#layout, executor, this.#reducing(), options.copy?.lanes ?? 1);
    this.#forwardNames = new Set(training.forward.inputs.map((input) => input.name));
    const backwardNames = new Set(training.backward?.inputs.map((input) => input.name));
    this.#saved = training.saved.map((value) => value.name).filter((saved) => backwardNames.has(saved));
    this.#evaluationNames = new Set(evaluation?.inputs.map((input) => input.name));
    this.#forwardWeights = this.#working.named(this.#forwardNames);
    this.#evaluationWeights = this.#working.named(this.#evaluationNames);
    this.#blockNames = new Set([...this.#layout.parameters, ...this.#layout.ties].map((place) => `grad:${place.name}`));
    executor.register(`${name}/forward`, training.forward);
    if (training.backward !== undefined) executor.register(`${name}/backward`, training.backward);
    if (evaluation !== undefined) executor.register(`${name}/evaluation`, evaluation);
  }

  /** Nothing on a CPU. A GPU compiles what a graph needs when it first runs: better before the VNode says that it is there. */
  async warmUp(): Promise<void> {
    const { executor, name, training, evaluation } = this.#options;
    if (executor.kind !== "webgpu") return;
    const keep = [...this.#saved, ...this.#blockNames];
    const graphs = { forward: training.forward, backward: training.backward, evaluation };
    for (const [kind, graph] of Object.entries(graphs))
      if (graph !== undefined) await warmUp(executor, `${name}/${kind}`, graph, kind === "evaluation" ? [] : keep);
  }

  /** Fresh weights from the session's seed. */
  async initialise(): Promise<void> {
    await this.state.initialise(this.#options.settings.seed);
    await this.#working.refresh();
  }

  async restore(file: StateReader, step: number): Promise<void> {
    await this.state.restore(file, step);
    await this.#working.refresh();
  }

  async adopt(file: StateReader): Promise<void> {
    await this.state.adopt(file);
    await this.#working.refresh();
  }

  /** Takes the inputs over; whoever gets the outputs holds them, each different one once. */
  forward(pass: Pass, inputs: ByPort<WireTensor>): Promise<{ outputs: Map<string, WireTensor>; measures: Measures }> {
    return this.#track(pass.step, async () => {
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
        const packed = twin ?? packInPlace(results[name]!, wire, this.#where(pass.step, name), this.memory);
        outputs.set(name, packed);
        if (twin !== undefined || packed.memory === undefined) continue;
        sent[name] = results[name]!;
        // What backward needs as well has two holders.
        if (saved[name] !== undefined) this.#options.executor.share(saved[name]);
      }
      this.#recycle(results, { ...saved, ...sent });
      return { outputs, measures };
    });
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
  backward(
    pass: Pass,
    gradients: readonly PortGradient<WireTensor>[],
  ): Promise<{ gradients: Map<string, WireTensor> }> {
    return this.#track(pass.step, async () => {
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
        const packed = packInPlace(gradient, wire, this.#where(step, `gradient of ${name}`), this.memory);
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
    });
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
      const parts = gradients.filter((gradient) => gradient.port === port.name).map(({ payload }) => open(payload));
      outside[`grad:${port.name}`] = parts.length > 0 ? sumInOrder(parts) : zeros([this.#samples, ...port.shape]);
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

  /** This step's weights for those who borrow them, by parameter name. */
  shareWeights(
    step: number,
    edges: readonly { fromPort: string; wire: WireTensor["dtype"] }[],
  ): Promise<Map<string, WireTensor>> {
    return this.#track(step, async () => {
      const shared = new Map<string, WireTensor>();
      for (const { fromPort, wire } of edges) {
        // Several may borrow one parameter.
        if (shared.has(fromPort)) continue;
        const weights = this.state.tensors.get(fromPort);
        assert(weights !== undefined, `VNode ${this.#options.plan.id} has the parameter ${fromPort}`);
        shared.set(fromPort, await this.#packLarge(weights, wire, this.#where(step, fromPort)));
      }
      return shared;
    });
  }

  /** Gradients of borrowed weights over the whole step, by input port. */
  tieGradients(step: number): Promise<Map<string, WireTensor>> {
    return this.#track(step, async () => {
      await this.#gradients.settled();
      const given = new Map<string, WireTensor>();
      for (const place of this.#layout.ties) {
        const { wire } = this.#options.plan.inputs.find((port) => port.name === place.name)!;
        const what = this.#where(step, `gradient of ${place.name}`);
        given.set(place.name, await this.#packLarge(this.#gradients.tensorOf(place), wire, what));
      }
      return given;
    });
  }

  /** This copy's gradient, those of lent weights added in edge order, or what its round taught, cut into what each lane adds up. */
  reduceParts(step: number, of: Added, ties: readonly PortGradient<WireTensor>[]): Promise<Map<string, WireTensor>> {
    return this.#track(step, async () => {
      await this.#gradients.settled();
      for (const { port, payload } of ties) await this.#addTie(port, payload);
      if (of === "outer") await this.#rounds?.difference();
      return this.#reducing().parts(of, this.#where(step, of === "outer" ? "what was learned" : "the gradient"));
    });
  }

  /** The shard that this copy adds up for all; takes the others' parts over. */
  reduceSum(step: number, of: Added, parts: readonly PortGradient<WireTensor>[]): Promise<WireTensor> {
    return this.#track(step, () => this.#reducing().sum(of, parts, this.#where(step, "the sum over lanes")));
  }

  /** Ends a round: all copies go on with the same weights. */
  outer(step: number, sums: readonly PortGradient<WireTensor>[]): Promise<{ hash: string }> {
    return this.#track(step, async () => {
      assert(this.#rounds !== undefined, `VNode ${this.#options.plan.id} has rounds`);
      await this.#reducing().takeSums(sums);
      const digest = await this.#rounds.step();
      await this.#working.refresh();
      this.#gradients.reset();
      return { hash: stepHash(this.#options.plan.id, step + 1, digest) };
    });
  }

  #reducing(): Reduction {
    assert(this.#reduction !== undefined, `VNode ${this.#options.plan.id} has copies`);
    return this.#reduction;
  }

  /** Ends the step: adds the gradients of lent weights in edge order, or takes what the copies added up, and applies the optimizer. */
  update(
    step: number,
    ties: readonly PortGradient<WireTensor>[],
    sums: readonly PortGradient<WireTensor>[] = [],
  ): Promise<{ hash: string; measures: Measures }> {
    return this.#track(step, async () => {
      const { plan, executor, settings } = this.#options;
      const measures: Record<string, number> = {};
      let digest: string | undefined;
      if (plan.role !== "passes" && this.#layout.weightLength > 0) {
        await this.#gradients.settled();
        for (const { port, payload } of ties) await this.#addTie(port, payload);
        await this.#reduction?.takeSums(sums);
        await this.state.beingRead;
        const { clipNorm } = settings;
        const rate = learningRateAt(settings, step);
        const isApart = lastOfRound(settings, step) !== undefined;
        const scale = isApart ? (this.#options.copy?.lanes ?? 1) : 1;
        const options = { optimizer: plan.optimizer, rate, clipNorm, scale, step, what: this.#where(step, "VNode") };
        const updated = await update(this.state, this.#layout, this.#gradients, executor, options);
        measures["gradient_norm"] = updated.norm;
        measures["learning_rate"] = rate;
        digest = updated.digest;
        await this.#working.refresh();
        if (step + 1 === settings.sync?.after) await this.#rounds?.begin();
      } else if (plan.role !== "passes") await this.#gradients.settled();
      // At a round's end its memory takes what was learned.
      if (this.#rounds === undefined || addedUpIn(settings, step) !== "outer") this.#gradients.reset();
      return { hash: digest ? stepHash(plan.id, step + 1, digest) : await this.state.hash(step + 1), measures };
    });
  }

  async #addTie(port: string, payload: WireTensor): Promise<void> {
    const { executor } = this.#options;
    const place = this.#layout.parameters.find((candidate) => candidate.name === port);
    assert(place !== undefined, `a gradient came back for the parameter ${port}`);
    const add = executor.tensor("float32", payload.shape);
    (add.data as Float32Array).set(open(payload).data as Float32Array);
    giveBack(payload);
    await executor.kernel({ kind: "accumulate", into: this.#gradients.spanAt(place.start, place.length), add });
    executor.recycle([add]);
  }

  /** Waits for what still runs, then gives all memory back. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#running);
    const { executor, name } = this.#options;
    for (const graph of ["forward", "backward", "evaluation"]) executor.unregister(`${name}/${graph}`);
    for (const { saved, feeds } of this.#kept.values())
      executor.recycle([...Object.values(saved), ...Object.values(feeds)]);
    this.#gradients.free();
    this.#working.free();
    this.state.free();
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

  /**
   * A copy of what the next update changes. A worker's kernels copy, and find NaN and infinity, several times faster than
   * this thread; there must be none.
   */
  async #packLarge(tensor: Tensor, wire: WireTensor["dtype"], what: string): Promise<WireTensor> {
    const { executor } = this.#options;
    const copy = executor.tensor("float32", tensor.shape);
    const [finite] = await executor.kernels([
      { kind: "finite", of: tensor },
      { kind: "copy", into: copy, of: tensor },
    ]);
    if (finite?.value === 1 && wire === "float32") return packInPlace(copy, wire, what, this.memory);
    executor.recycle([copy]);
    return pack(tensor, wire, what, finite?.value === 1);
  }

  #where(step: number, what: string): string {
    return `${what} (VNode ${this.#options.plan.id}, step ${step})`;
  }

  async #track<T>(step: number, task: () => Promise<T>): Promise<T> {
    const running = task();
    this.#running.add(running);
    try {
      return await running;
    } catch (error) {
      const known = DcnrError.from(error);
      if (known.message.includes(`VNode ${this.#options.plan.id}`)) throw known;
      throw new DcnrError(known.code, `VNode ${this.#options.plan.id}, step ${step}: ${known.message}`, {
        cause: error,
      });
    } finally {
      this.#running.delete(running);
    }
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
