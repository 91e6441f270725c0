// One vector for a text, out of the hidden states of its tokens: their mean, or the last one's, of length 1. Sums are made in
// the order of positions, so that they do not depend on the passes in which states came.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";

export const poolings = ["mean", "last"] as const;
export type Pooling = (typeof poolings)[number];

export function parsePooling(name: string): Pooling {
  return (
    poolings.find((each) => each === name) ??
    fail("invalid_argument", `a text's vector is the ${poolings.join(" or the ")} of its tokens, not "${name}"`)
  );
}

export class Pool {
  readonly #pooling: Pooling;
  #sums = new Float64Array(0);
  #states = 0;

  constructor(pooling: Pooling) {
    this.#pooling = pooling;
  }

  /** Of how many of the last tokens of a piece states are needed; `isLast`: it ends the text. */
  wants(tokens: number, isLast: boolean): number {
    if (this.#pooling === "mean") return tokens;
    return isLast ? 1 : 0;
  }

  add(states: Float32Array, width: number): void {
    if (this.#sums.length === 0) this.#sums = new Float64Array(width);
    assert(this.#sums.length === width, "all hidden states are as wide");
    for (const [i, value] of states.entries()) this.#sums[i % width] = (this.#sums[i % width] as number) + value;
    this.#states += states.length / width;
  }

  /** What was read is read again. */
  clear(): void {
    this.#sums.fill(0);
    this.#states = 0;
  }

  /** `states`: so many must have come, or somebody on the way does not know of them. */
  vector(states: number): Float32Array {
    if (this.#states !== states)
      fail("failed_precondition", "a PNode of the model is too old to give hidden states: update it");
    const length = Math.sqrt(this.#sums.reduce((sum, value) => sum + value * value, 0));
    if (!(length > 0)) fail("out_of_range", "the hidden states are all zero: they have no direction");
    return Float32Array.from(this.#sums, (value) => value / length);
  }
}
