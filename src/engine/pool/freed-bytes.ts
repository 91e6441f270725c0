// Says when so much shared memory was freed that a collection of garbage pays.

/** A collection takes some milliseconds: not worth it for less. */
const worthwhileBytes = 64 << 20;

export class FreedBytes {
  #bytes = 0;

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  isWorthCollecting(): boolean {
    if (this.#bytes < worthwhileBytes) return false;
    this.#bytes = 0;
    return true;
  }
}
