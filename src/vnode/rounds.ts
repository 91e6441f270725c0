// What rounds do to the weights of one copy: where a round began is kept, what was learned in it is the difference from there,
// and at its end all copies take one step from there by the mean of the differences (Nesterov's, with a velocity of its own).
// Optimizer moments stay each lane's own. Made of the engine's kernels alone, so that the bits are the same everywhere.

import type { Executor, KernelCall } from "../engine/engine.ts";
import { type Layout, spanOf } from "./layout.ts";
import type { Reduction } from "./reduce.ts";
import type { VNodeState } from "./state.ts";

/** Measured against 0.7 and 0.9 with fresh moments, plain means and others: docs/decisions/0027-rounds.md. */
const outerRate = 1;
const outerMomentum = 0.8;

const plain = { weightDecay: 0, momentum: 0 } as const;

export class Rounds {
  readonly #state: VNodeState;
  readonly #layout: Layout;
  readonly #executor: Executor;
  readonly #reduction: Reduction;
  readonly #lanes: number;

  constructor(state: VNodeState, layout: Layout, executor: Executor, reduction: Reduction, lanes: number) {
    this.#state = state;
    this.#layout = layout;
    this.#executor = executor;
    this.#reduction = reduction;
    this.#lanes = lanes;
  }

  /** The first round begins with the weights as they are. */
  async begin(): Promise<void> {
    const whole = (part: "anchor" | "weights") => spanOf(this.#state.part(part), 0, this.#layout.weightLength);
    await this.#executor.kernel({ kind: "copy", into: whole("anchor"), of: whole("weights") });
  }

  /** Puts what the round has taught where gradients lie: weights at its beginning less the weights now. */
  async difference(): Promise<void> {
    const calls = this.#spans().flatMap(({ from, count, span }): KernelCall[] => {
      const [anchor, weights] = [this.#span("anchor", from, count), this.#span("weights", from, count)];
      return [
        { kind: "copy", into: span, of: anchor },
        { kind: "sgd", weights: span, gradient: weights, rate: 1, gradientScale: 1, ...plain },
      ];
    });
    await this.#executor.kernels(calls);
  }

  /** One step of all lanes together, by what they have added up where gradients lie. Returns the digest of the weights. */
  async step(): Promise<string> {
    await this.#state.beingRead;
    const mean = 1 / this.#lanes;
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
