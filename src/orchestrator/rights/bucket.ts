// How many requests a key may make: fills steadily, holds at most a minute's worth.

export class Bucket {
  readonly #perMinute: number;
  #tokens: number;
  #lastMs: number | undefined;

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
    this.#tokens = perMinute;
  }

  /** 0, or how long it takes until there is one. */
  take(nowMs: number): number {
    const elapsedMs = nowMs - (this.#lastMs ?? nowMs);
    this.#lastMs = nowMs;
    this.#tokens = Math.min(this.#perMinute, this.#tokens + (elapsedMs / 60_000) * this.#perMinute);
    if (this.#tokens < 1) return ((1 - this.#tokens) / this.#perMinute) * 60_000;
    this.#tokens -= 1;
    return 0;
  }
}
