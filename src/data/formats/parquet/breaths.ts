// Lets whatever else a process does have its turn while something long is read: after so many values, however they are spread over
// pages and columns.

import { setImmediate as othersTurn } from "node:timers/promises";

/** Some milliseconds: a value takes a tenth of a microsecond, a short text three. */
const valuesPerBreath = 8_192;
/** Copying or decoding so many bytes takes as long as a value. */
export const bytesPerValue = 64;

export class Breaths {
  #left = valuesPerBreath;

  /** Counts what was done; the next look finds it due. */
  spend(values: number): void {
    this.#left -= values;
  }

  /** Whether it is time for others, `values` later. Not a promise: most of the time it is not. */
  isDue(values: number): boolean {
    this.#left -= values;
    return this.#left <= 0;
  }

  async take(): Promise<void> {
    this.#left = valuesPerBreath;
    await othersTurn();
  }

  async after(values: number): Promise<void> {
    if (this.isDue(values)) await this.take();
  }

  async list<T>(length: number, at: (index: number) => T): Promise<T[]> {
    const values: T[] = [];
    for (let i = 0; i < length; i++) {
      values.push(at(i));
      if (this.isDue(1)) await this.take();
    }
    return values;
  }
}
