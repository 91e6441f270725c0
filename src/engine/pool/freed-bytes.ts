// Says when so much shared memory was freed that a collection of garbage pays.

/** A collection takes some milliseconds: not worth it for less. */
const worthwhileBytes = 64 << 20;

export class FreedBytes {
  #bytes = 0;

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Something large was read and is needed no more: what is freed next is worth it, however small. */
  expectRest(): void {
    this.#bytes = worthwhileBytes;
  }

  isWorthCollecting(): boolean {
    if (this.#bytes < worthwhileBytes) return false;
    this.#bytes = 0;
    return true;
  }
}
