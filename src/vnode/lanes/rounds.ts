// What rounds do to the weights of one copy: where a round began is kept, what was learned in it is the difference from there,
// and at its end all copies take one step from there by the mean of the differences (Nesterov's, with a velocity of its own).
// Optimizer moments stay each lane's own. Made of the engine's kernels alone, so that the bits are the same everywhere.

import type { Executor, KernelCall } from "../../engine/engine.ts";
import type { Counted } from "../book.ts";
import { type Layout, spanOf } from "../layout.ts";
import type { VNodeState } from "../state.ts";
import type { Reduction } from "./reduce.ts";

/** Measured against 0.7 and 0.9 with fresh moments, plain means and others: docs/decisions/0027-rounds.md. */
const outerRate = 1;
const outerMomentum = 0.8;

/** Against the mean of those that count: 1 where all took the same number of steps. */
function weightOf(counted: readonly Counted[], lane: number): number {
  const all = counted.reduce((sum, { steps }) => sum + steps, 0);
  const own = counted.find((one) => one.lane === lane)?.steps ?? 0;
  return (own * counted.length) / all;
}

const plain = { weightDecay: 0, momentum: 0 } as const;

export class Rounds {
  readonly #state: VNodeState;
  readonly #layout: Layout;
  readonly #executor: Executor;
  readonly #reduction: Reduction;
  readonly #lane: number;

  constructor(state: VNodeState, layout: Layout, executor: Executor, reduction: Reduction, lane: number) {
    this.#state = state;
    this.#layout = layout;
    this.#executor = executor;
    this.#reduction = reduction;
    this.#lane = lane;
  }

  /** The first round begins with the weights as they are. */
  async begin(): Promise<void> {
    const whole = (part: "anchor" | "weights") => spanOf(this.#state.part(part), 0, this.#layout.weightLength);
    await this.#executor.kernel({ kind: "copy", into: whole("anchor"), of: whole("weights") });
  }

  /**
   * Puts what the round has taught where gradients lie: weights at its beginning less the weights now, weighed by the steps that
   * they took, so that every sample counts alike.
   */
  async difference(counted: readonly Counted[]): Promise<void> {
    const weight = weightOf(counted, this.#lane);
    const calls = this.#spans().flatMap(({ from, count, span }): KernelCall[] => {
      const [anchor, weights] = [this.#span("anchor", from, count), this.#span("weights", from, count)];
      if (weight === 1)
        return [
          { kind: "copy", into: span, of: anchor },
          { kind: "sgd", weights: span, gradient: weights, rate: 1, gradientScale: 1, ...plain },
        ];
      return [
        { kind: "fill", into: span, value: 0 },
        { kind: "sgd", weights: span, gradient: anchor, rate: 1, gradientScale: -weight, ...plain },
        { kind: "sgd", weights: span, gradient: weights, rate: 1, gradientScale: weight, ...plain },
      ];
    });
    await this.#executor.kernels(calls);
  }

  /** One step of so many lanes together, by what they have added up where gradients lie. Returns the digest of the weights. */
  async step(lanes: number): Promise<string> {
    await this.#state.beingRead;
    const mean = 1 / lanes;
    const calls = this.#spans().flatMap(({ from, count, span }): KernelCall[] => {
      const [anchor, velocity] = [this.#span("anchor", from, count), this.#span("velocity", from, count)];
      const weights = this.#span("weights", from, count);
      return [
        {
          ...{ kind: "sgd", weights: anchor, gradient: span, velocity, rate: 0, gradientScale: mean },
          ...{ momentum: outerMomentum, weightDecay: 0 },
        },
        { kind: "sgd", weights: anchor, gradient: span, rate: outerRate, gradientScale: mean, ...plain },
        {
          kind: "sgd",
          weights: anchor,
          gradient: velocity,
          rate: outerRate * outerMomentum,
          gradientScale: 1,
          ...plain,
        },
        { kind: "copy", into: weights, of: anchor },
      ];
    });
    const results = await this.#executor.kernels([...calls, this.#state.digestCall()]);
    return results.at(-1)?.digest as string;
  }

  #spans() {
    return this.#reduction.spans(0, this.#layout.weightLength);
  }

  #span(part: "anchor" | "velocity" | "weights", from: number, count: number) {
    return spanOf(this.#state.part(part), from, count);
  }
}
