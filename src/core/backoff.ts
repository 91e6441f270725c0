// Waiting times between attempts: doubling, bounded, with jitter so that a thousand PNodes do not knock at once.

import type { Chance } from "./world.ts";

export class Backoff {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #chance: Chance;
  #nextMs: number;

  constructor(minMs: number, maxMs: number, chance: Chance) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#chance = chance;
    this.#nextMs = minMs;
  }

  /** Between half and all of the present step; the step doubles. */
  next(): number {
    const delayMs = this.#nextMs * (0.5 + 0.5 * this.#chance.uniform());
    this.#nextMs = Math.min(this.#nextMs * 2, this.#maxMs);
    return delayMs;
  }

  reset(): void {
    this.#nextMs = this.#minMs;
  }
}
