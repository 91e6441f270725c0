// The bits of a JPEG scan: Huffman codes and the numbers behind them. A marker ends them; behind it zeros are read, as
// decoders do with files that are cut off, but only so many that a lying file cannot keep us busy.

import { damaged } from "./picture.ts";

export interface HuffmanTable {
  /** By length from 1 to 16: the largest code, or -1; and where its symbols begin, less its smallest code. */
  readonly largest: Int32Array;
  readonly offset: Int32Array;
  readonly symbols: Uint8Array;
}

export function huffmanTable(counts: Uint8Array, symbols: Uint8Array): HuffmanTable | undefined {
  const [largest, offset] = [new Int32Array(17).fill(-1), new Int32Array(17)];
  let [code, at] = [0, 0];
  for (let length = 1; length <= 16; length++) {
    const count = counts[length - 1] as number;
    offset[length] = at - code;
    at += count;
    code += count;
    if (code > 1 << length) return undefined;
    if (count > 0) largest[length] = code - 1;
    code <<= 1;
  }
  return at === symbols.length ? { largest, offset, symbols } : undefined;
}

/** A whole file of such zeros is no picture. */
const missingBitsMax = 1 << 16;

export class BitReader {
  readonly #bytes: Uint8Array;
  readonly #name: string;
  #at: number;
  #bits = 0;
  #count = 0;
  #missing = 0;

  constructor(bytes: Uint8Array, start: number, name: string) {
    this.#bytes = bytes;
    this.#at = start;
    this.#name = name;
  }

  /** Where the next marker may be. */
  get position(): number {
    return this.#at;
  }

  bit(): number {
    if (this.#count === 0) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined || (byte === 0xff && this.#bytes[this.#at + 1] !== 0)) {
        if (++this.#missing > missingBitsMax) damaged(this.#name, "its pixels end too early");
        return 0;
      }
      this.#at += byte === 0xff ? 2 : 1;
      this.#bits = byte;
      this.#count = 8;
    }
    this.#count--;
    return (this.#bits >> this.#count) & 1;
  }

  bits(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i++) value = (value << 1) | this.bit();
    return value;
  }

  /** A number of `count` bits whose first bit says its sign. */
  signed(count: number): number {
    if (count === 0) return 0;
    const value = this.bits(count);
    return value < 1 << (count - 1) ? value - (1 << count) + 1 : value;
  }

  symbol({ largest, offset, symbols }: HuffmanTable): number {
    let code = 0;
    for (let length = 1; length <= 16; length++) {
      code = (code << 1) | this.bit();
      if (code <= (largest[length] as number)) return symbols[code + (offset[length] as number)] as number;
    }
    return damaged(this.#name, "its pixels hold a code that does not exist");
  }

  /** Behind a restart marker, if one stands here: the rest of the byte in front of it does not count. */
  restart(): void {
    this.#count = 0;
    for (let at = this.#at; at + 1 < this.#bytes.length; at++) {
      if (this.#bytes[at] !== 0xff) continue;
      const next = this.#bytes[at + 1] as number;
      if (next >= 0xd0 && next <= 0xd7) this.#at = at + 2;
      if (next !== 0 && next !== 0xff) return;
    }
  }
}
