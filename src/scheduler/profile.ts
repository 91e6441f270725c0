// What is free on one PNode over time, as steps: more at each end of those who run, less while something is promised. Pure.

export interface Amount {
  readonly memoryBytes: number;
  readonly gpus: number;
}

export class Profile {
  /** Ascending; what is free from each on, until the next. */
  readonly #fromMs = [Number.NEGATIVE_INFINITY];
  readonly #memoryBytes: number[];
  readonly #gpus: number[];

  constructor({ memoryBytes, gpus }: Amount) {
    this.#memoryBytes = [memoryBytes];
    this.#gpus = [gpus];
  }

  copy(): Profile {
    const copy = new Profile({ memoryBytes: 0, gpus: 0 });
    copy.#fromMs.splice(0, 1, ...this.#fromMs);
    copy.#memoryBytes.splice(0, 1, ...this.#memoryBytes);
    copy.#gpus.splice(0, 1, ...this.#gpus);
    return copy;
  }

  get steps(): number {
    return this.#fromMs.length;
  }

  /** From then on there is more. */
  release(atMs: number, amount: Amount): void {
    this.#add(this.#cut(atMs), this.steps, amount, 1);
  }

  /** In this stretch there is less. */
  hold(fromMs: number, toMs: number, amount: Amount): void {
    const from = this.#cut(fromMs);
    this.#add(from, this.#cut(toMs), amount, -1);
  }

  at(atMs: number): { memoryBytes: number; gpus: number } {
    const index = this.#indexAt(atMs);
    return { memoryBytes: this.#memoryBytes[index] as number, gpus: this.#gpus[index] as number };
  }

  /** The least that is free in the whole stretch. */
  least(fromMs: number, toMs: number): { memoryBytes: number; gpus: number } {
    let index = this.#indexAt(fromMs);
    let memoryBytes = this.#memoryBytes[index] as number;
    let gpus = this.#gpus[index] as number;
    for (index++; index < this.steps && (this.#fromMs[index] as number) < toMs; index++) {
      memoryBytes = Math.min(memoryBytes, this.#memoryBytes[index] as number);
      gpus = Math.min(gpus, this.#gpus[index] as number);
    }
    return { memoryBytes, gpus };
  }

  #add(from: number, to: number, { memoryBytes, gpus }: Amount, sign: 1 | -1): void {
    for (let index = from; index < to; index++) {
      this.#memoryBytes[index] = (this.#memoryBytes[index] as number) + sign * memoryBytes;
      this.#gpus[index] = (this.#gpus[index] as number) + sign * gpus;
    }
  }

  /** The step that begins then, which is made if there is none. */
  #cut(atMs: number): number {
    const index = this.#indexAt(atMs);
    if (this.#fromMs[index] === atMs) return index;
    this.#fromMs.splice(index + 1, 0, atMs);
    this.#memoryBytes.splice(index + 1, 0, this.#memoryBytes[index] as number);
    this.#gpus.splice(index + 1, 0, this.#gpus[index] as number);
    return index + 1;
  }

  /** The last step that begins by then. */
  #indexAt(atMs: number): number {
    return lastBy(this.#fromMs, atMs);
  }
}

/** Where the last of these ascending times stands that is not after `atMs`; -1 if there is none. */
export function lastBy(times: readonly number[], atMs: number): number {
  let from = 0;
  let until = times.length;
  while (from < until) {
    const middle = (from + until) >> 1;
    if ((times[middle] as number) <= atMs) from = middle + 1;
    else until = middle;
  }
  return from - 1;
}
