// The numerics of one VNode on an executor: what happens to its weights. Microbatches pass through it (passes.ts); here their gradients
// meet those of ties and of other lanes, and become an update.

import { assert } from "../core/assert.ts";
import { DcnrError } from "../core/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";
import type { GraphModel } from "../graph/model.ts";
import type { TrainingGraphs, VNodePlan } from "../network/plan.ts";
import { roundAt } from "../network/rounds.ts";
import { type LearningSettings, learningRateAt } from "../network/settings/session.ts";
import type { StateReader } from "../states/reader.ts";
import type { Counted } from "./book.ts";
import type { ByPort, Measures, PortGradient } from "./effects.ts";
import type { BatchSource, FeedOptions, Pass } from "./feeds.ts";
import { Gradients } from "./gradients.ts";
import { type Added, Reduction } from "./lanes/reduce.ts";
import { Rounds } from "./lanes/rounds.ts";
import { type Layout, layoutOf } from "./layout.ts";
import { update } from "./optimizer.ts";
import { Passes } from "./passes.ts";
import { stepHash, VNodeState } from "./state.ts";
import { giveBack, type MessageMemory, messageMemory, open, pack, packInPlace, type WireTensor } from "./wire.ts";
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

/** What copies add up in a step, and who. */
interface Adding {
  readonly step: number;
  readonly of: Added;
  readonly counted: readonly Counted[];
}

export class VNodeCompute {
  readonly state: VNodeState;
  readonly #options: ComputeOptions;
  readonly #layout: Layout;
  readonly #gradients: Gradients;
  readonly #working: WorkingWeights;
  readonly #passes: Passes;
  readonly #reduction: Reduction | undefined;
  /** Where lanes learn apart for a while. */
  readonly #rounds: Rounds | undefined;
  readonly #running = new Set<Promise<unknown>>();
  /** Where its messages lie: what it computed, and what is received for it. */
  readonly memory: MessageMemory;

  constructor(options: ComputeOptions) {
    const { plan, executor, training } = options;
    this.#options = options;
    this.memory = messageMemory(executor);
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
      this.#rounds = new Rounds(this.state, this.#layout, executor, this.#reducing(), options.copy?.lane ?? 0);
    this.#passes = new Passes(options, {
      ...{ layout: this.#layout, gradients: this.#gradients, working: this.#working, memory: this.memory },
    });
  }

  /** Nothing on a CPU. A GPU compiles what a graph needs when it first runs: better before the VNode says that it is there. */
  warmUp(): Promise<string | undefined> {
    return this.#passes.warmUp();
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
    await this.state.adopt(file, this.#options.settings.seed);
    await this.#working.refresh();
  }

  /** Takes the inputs over; whoever gets the outputs holds them, each different one once. */
  forward(pass: Pass, inputs: ByPort<WireTensor>): ReturnType<Passes["forward"]> {
    return this.#track(pass.step, () => this.#passes.forward(pass, inputs));
  }

  /** Takes the gradients over; whoever gets those of its inputs holds them. */
  backward(pass: Pass, gradients: readonly PortGradient<WireTensor>[]): ReturnType<Passes["backward"]> {
    return this.#track(pass.step, () => this.#passes.backward(pass, gradients));
  }

  /** Adds one microbatch's gradients to the step's, in the order of calls. */
  accumulate(microbatch: number): void {
    this.#passes.accumulate(microbatch);
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
        const weights = this.state.tensors.get(fromPort) ?? this.state.frozen.get(fromPort);
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
  reduceParts({ step, of, counted }: Adding, ties: readonly PortGradient<WireTensor>[]) {
    return this.#track(step, async (): Promise<Map<string, WireTensor>> => {
      if (of === "outer") {
        this.#gradients.open();
        await this.#rounds?.difference(counted);
      } else await this.#gradients.settled();
      for (const { port, payload } of ties) await this.#addTie(port, payload);
      const what = this.#where(step, of === "outer" ? "what was learned" : "the gradient");
      return this.#reducing().parts(of, this.#lanesIn(counted), what);
    });
  }

  /** The shard that this copy adds up for all; takes the others' parts over. */
  reduceSum({ step, of, counted }: Adding, parts: readonly PortGradient<WireTensor>[]): Promise<WireTensor> {
    const what = this.#where(step, "the sum over lanes");
    return this.#track(step, () => this.#reducing().sum(of, this.#lanesIn(counted), parts, what));
  }

  /** Those who add up: all, or those whose work counts in a round. */
  #lanesIn(counted: readonly Counted[]): readonly number[] {
    const { lanes = 1 } = this.#options.copy ?? {};
    return counted.length > 0 ? counted.map(({ lane }) => lane) : Array.from({ length: lanes }, (_, lane) => lane);
  }

  /** Ends a round: all copies go on with the same weights. */
  outer({ step, counted }: Omit<Adding, "of">, sums: readonly PortGradient<WireTensor>[]): Promise<{ hash: string }> {
    return this.#track(step, async () => {
      assert(this.#rounds !== undefined, `VNode ${this.#options.plan.id} has rounds`);
      await this.#reducing().takeSums(sums, this.#lanesIn(counted));
      const digest = await this.#rounds.step(counted.length);
      await this.#working.refresh();
      this.#gradients.reset();
      return { hash: stepHash(this.#options.plan.id, step + 1, digest) };
    });
  }

  /** Others learn in this step. */
  rest(step: number): Promise<string> {
    return this.#track(step, () => this.state.hash(step + 1));
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
        await this.#reduction?.takeSums(sums, this.#lanesIn([]));
        await this.state.beingRead;
        const { clipNorm } = settings;
        const rate = learningRateAt(settings, step);
        const isApart = roundAt(settings, step) !== undefined;
        const scale = isApart ? (this.#options.copy?.lanes ?? 1) : 1;
        const options = { optimizer: plan.optimizer, rate, clipNorm, scale, step, what: this.#where(step, "VNode") };
        const updated = await update(this.state, this.#layout, this.#gradients, executor, options);
        measures["gradient_norm"] = updated.norm;
        measures["learning_rate"] = rate;
        digest = updated.digest;
        await this.#working.refresh();
        if (step + 1 === settings.sync?.after) await this.#rounds?.begin();
      } else if (plan.role !== "passes") await this.#gradients.settled();
      this.#gradients.reset();
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
    this.#passes.close();
    this.#gradients.free();
    this.#working.free();
    this.state.free();
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
