// Seeded chance for the simulated world: where faults, delays and names come from. It has nothing to do with
// the counter-based generator that feeds VNodes; no number drawn here may reach a model's state.

import type { Chance } from "../../src/core/world.ts";

export class SeededChance implements Chance {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number, stream = "") {
    this.#a = seed >>> 0;
    this.#b = Math.floor(seed / 2 ** 32) >>> 0;
    this.#c = hashText(stream);
    for (let warmUp = 0; warmUp < 12; warmUp++) this.word();
  }

  /** 32 uniform bits (the sfc32 recurrence: three words of state and a counter). */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) >>> 0;
    this.#counter = (this.#counter + 1) >>> 0;
    this.#a = (this.#b ^ (this.#b >>> 9)) >>> 0;
    this.#b = (this.#c + (this.#c << 3)) >>> 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) >>> 0;
    return sum;
  }

  uniform(): number {
    return this.word() / 2 ** 32;
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.word() & 255);
  }

  /** True with the given probability; draws nothing when it is 0, so that an absent fault costs no time. */
  happens(probability: number): boolean {
    return probability > 0 && this.uniform() < probability;
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.uniform();
  }

  /** A whole number from `low` to `high`, both included. */
  whole(low: number, high: number): number {
    return low + Math.floor(this.uniform() * (high - low + 1));
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.uniform() * items.length)] as T;
  }

  /** Log-uniform: most values are near `low`, a few near `high`. */
  skewed(low: number, high: number): number {
    return low * (high / low) ** this.uniform();
  }
}

export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
