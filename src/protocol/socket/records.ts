// Records on a line: four bytes of length, then so many bytes. Whoever carries a line may cut its bytes anywhere.

import { fail } from "../../core/errors.ts";

const prefixBytes = 4;

export function encodeRecord(...pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const record = new Uint8Array(prefixBytes + bytes);
  new DataView(record.buffer).setUint32(0, bytes);
  let at = prefixBytes;
  for (const piece of pieces) {
    record.set(piece, at);
    at += piece.byteLength;
  }
  return record;
}

/** Cuts what arrives into records. */
export class RecordReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);

  constructor(source: AsyncIterator<Uint8Array>) {
    this.#source = source;
  }

  /** Undefined where the line ends between records. */
  async next(bytesMax: number): Promise<Uint8Array | undefined> {
    const prefix = await this.#take(prefixBytes);
    if (prefix === undefined) return undefined;
    const length = new DataView(prefix.buffer, prefix.byteOffset, prefixBytes).getUint32(0);
    if (length > bytesMax) fail("invalid_argument", `a record of ${length} bytes is too long`);
    return (await this.#take(length)) ?? fail("unavailable", "the line ended within a record");
  }

  /** So many bytes as they come, without a length before them. */
  exactly(count: number): Promise<Uint8Array | undefined> {
    return this.#take(count);
  }

  async #take(count: number): Promise<Uint8Array | undefined> {
    if (this.#rest.byteLength >= count) return this.#cut(count);
    const whole = new Uint8Array(count);
    whole.set(this.#rest);
    let filled = this.#rest.byteLength;
    this.#rest = new Uint8Array(0);
    while (filled < count) {
      const next = await this.#source.next();
      if (next.done) return filled === 0 ? undefined : fail("unavailable", "the line ended within a record");
      const part = next.value.subarray(0, count - filled);
      whole.set(part, filled);
      filled += part.byteLength;
      this.#rest = next.value.subarray(part.byteLength);
    }
    return whole;
  }

  #cut(count: number): Uint8Array {
    const taken = this.#rest.subarray(0, count);
    this.#rest = this.#rest.subarray(count);
    return taken;
  }
}
