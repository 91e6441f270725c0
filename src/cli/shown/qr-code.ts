// A QR code (ISO/IEC 18004) for a terminal: what a link needs of it and no more. Bytes, the lowest level of correction, versions
// 1 to 10, one mask: terminals are not crumpled, and every reader takes every mask.

import { fail } from "../../core/errors.ts";

/** Per version from 1 on: bytes of correction per block, blocks, bytes of data in all. Level L. */
const capacities: readonly (readonly [correction: number, blocks: number, data: number])[] = [
  [7, 1, 19],
  [10, 1, 34],
  [15, 1, 55],
  [20, 1, 80],
  [26, 1, 108],
  [18, 2, 136],
  [20, 2, 156],
  [24, 2, 194],
  [30, 2, 232],
  [18, 4, 274],
];

/** Level L and mask 0 with their own correction and mask, as the standard tabulates them. */
const formatBits = 0b111011111000100;

/** Rows of modules, true for dark. */
export function qrModules(text: string): boolean[][] {
  const bytes = new TextEncoder().encode(text);
  const version = capacities.findIndex(([, , data], index) => bytes.length + (index < 9 ? 2 : 3) <= data) + 1;
  if (version === 0) fail("resource_exhausted", `${bytes.length} bytes are too many for a QR code of this kind`);
  const grid = new Grid(version);
  grid.fill(withCorrection(packed(bytes, version), version));
  return grid.dark;
}

/** Two rows a line, white on black whatever the terminal's colours, with the quiet edge that readers want. */
export function qrCode(text: string): string {
  const dark = qrModules(text);
  const edge = 2;
  const isLight = (x: number, y: number) => !dark[y]?.[x];
  const lines: string[] = [];
  for (let y = -edge; y < dark.length + edge; y += 2) {
    let line = "";
    for (let x = -edge; x < dark.length + edge; x++)
      line += "█▀▄ "[(isLight(x, y) ? 0 : 2) + (isLight(x, y + 1) ? 0 : 1)];
    lines.push(`\u001b[97;40m${line}\u001b[0m`);
  }
  return lines.join("\n");
}

function packed(bytes: Uint8Array, version: number): Uint8Array {
  const [, , size] = capacities[version - 1] as (typeof capacities)[number];
  const bits: number[] = [];
  const push = (value: number, count: number) => {
    for (let i = count - 1; i >= 0; i--) bits.push((value >>> i) & 1);
  };
  push(0b0100, 4);
  push(bytes.length, version < 10 ? 8 : 16);
  for (const byte of bytes) push(byte, 8);
  push(0, Math.min(4, size * 8 - bits.length));
  while (bits.length % 8 !== 0) bits.push(0);
  const content = new Uint8Array(size);
  for (let i = 0; i < size; i++) {
    const whole = bits.slice(i * 8, i * 8 + 8);
    const padding = (i - bits.length / 8) % 2 === 0 ? 0xec : 0x11;
    content[i] = whole.length === 8 ? Number.parseInt(whole.join(""), 2) : padding;
  }
  return content;
}

/** Blocks with their Reed-Solomon bytes, dealt out like cards. */
function withCorrection(content: Uint8Array, version: number): number[] {
  const [correction, count, size] = capacities[version - 1] as (typeof capacities)[number];
  const short = Math.floor(size / count);
  const longer = size % count;
  const blocks: Uint8Array[] = [];
  for (let i = 0, at = 0; i < count; i++) {
    const length = short + (i < count - longer ? 0 : 1);
    blocks.push(content.subarray(at, at + length));
    at += length;
  }
  const divisor = generator(correction);
  const remainders = blocks.map((block) => remainder(block, divisor));
  return [...dealt(blocks, short + 1), ...dealt(remainders, correction)];
}

function dealt(blocks: readonly Uint8Array[], length: number): number[] {
  const all: number[] = [];
  for (let i = 0; i < length; i++) for (const block of blocks) if (i < block.length) all.push(block[i] as number);
  return all;
}

/** In the field of 256 elements modulo x^8 + x^4 + x^3 + x^2 + 1. */
export function times(a: number, b: number): number {
  let product = 0;
  for (let i = 7; i >= 0; i--) {
    product = (product << 1) ^ ((product >>> 7) * 0x11d);
    if ((b >>> i) & 1) product ^= a;
  }
  return product;
}

/** The product of (x - 2^i), without its leading one; highest power first. */
function generator(degree: number): Uint8Array {
  const result = new Uint8Array(degree);
  result[degree - 1] = 1;
  for (let i = 0, root = 1; i < degree; i++, root = times(root, 2))
    for (let j = 0; j < degree; j++)
      result[j] = times(result[j] as number, root) ^ (j + 1 < degree ? (result[j + 1] as number) : 0);
  return result;
}

function remainder(block: Uint8Array, divisor: Uint8Array): Uint8Array {
  const rest = new Uint8Array(divisor.length);
  for (const byte of block) {
    const factor = byte ^ (rest[0] as number);
    rest.copyWithin(0, 1);
    rest[rest.length - 1] = 0;
    for (let i = 0; i < rest.length; i++) rest[i] = (rest[i] as number) ^ times(divisor[i] as number, factor);
  }
  return rest;
}

class Grid {
  readonly dark: boolean[][];
  /** Where a pattern of the code itself lies, which no data may touch. */
  readonly #taken: boolean[][];
  readonly #size: number;

  constructor(version: number) {
    const size = 17 + 4 * version;
    this.#size = size;
    this.dark = Array.from({ length: size }, () => new Array<boolean>(size).fill(false));
    this.#taken = Array.from({ length: size }, () => new Array<boolean>(size).fill(false));
    for (let i = 0; i < size; i++) {
      this.#set(6, i, i % 2 === 0);
      this.#set(i, 6, i % 2 === 0);
    }
    for (const [x, y] of [
      [3, 3],
      [size - 4, 3],
      [3, size - 4],
    ] as const)
      this.#finder(x, y);
    this.#alignments(version);
    this.#format();
    if (version >= 7) this.#version(version);
  }

  #set(x: number, y: number, dark: boolean): void {
    if (x < 0 || y < 0 || x >= this.#size || y >= this.#size) return;
    (this.dark[y] as boolean[])[x] = dark;
    (this.#taken[y] as boolean[])[x] = true;
  }

  #finder(x: number, y: number): void {
    for (let dy = -4; dy <= 4; dy++)
      for (let dx = -4; dx <= 4; dx++) {
        const ring = Math.max(Math.abs(dx), Math.abs(dy));
        this.#set(x + dx, y + dy, ring !== 2 && ring !== 4);
      }
  }

  #alignments(version: number): void {
    if (version === 1) return;
    const last = this.#size - 7;
    const places = version < 7 ? [6, last] : [6, (6 + last) / 2, last];
    for (const x of places)
      for (const y of places) {
        const onFinder = (x === 6 && y === 6) || (x === 6 && y === last) || (x === last && y === 6);
        if (onFinder) continue;
        for (let dy = -2; dy <= 2; dy++)
          for (let dx = -2; dx <= 2; dx++) this.#set(x + dx, y + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
      }
  }

  /** Twice, around the corners. */
  #format(): void {
    const bit = (i: number) => ((formatBits >>> i) & 1) === 1;
    for (let i = 0; i < 15; i++) {
      if (i < 6) this.#set(8, i, bit(i));
      else if (i < 8) this.#set(8, i + 1, bit(i));
      else if (i === 8) this.#set(7, 8, bit(i));
      else this.#set(14 - i, 8, bit(i));
      if (i < 8) this.#set(this.#size - 1 - i, 8, bit(i));
      else this.#set(8, this.#size - 15 + i, bit(i));
    }
    this.#set(8, this.#size - 8, true);
  }

  #version(version: number): void {
    let rest = version;
    for (let i = 0; i < 12; i++) rest = (rest << 1) ^ ((rest >>> 11) * 0x1f25);
    const bits = (version << 12) | rest;
    for (let i = 0; i < 18; i++) {
      const [far, near] = [this.#size - 11 + (i % 3), Math.floor(i / 3)];
      this.#set(far, near, ((bits >>> i) & 1) === 1);
      this.#set(near, far, ((bits >>> i) & 1) === 1);
    }
  }

  /** Up and down in columns of two, from the right, around what is taken. */
  fill(bytes: readonly number[]): void {
    let at = 0;
    let upwards = true;
    for (let right = this.#size - 1; right >= 1; right -= 2) {
      if (right === 6) right = 5;
      for (let i = 0; i < this.#size; i++) {
        const y = upwards ? this.#size - 1 - i : i;
        for (const x of [right, right - 1]) {
          if (this.#taken[y]?.[x]) continue;
          const bit = (((bytes[at >>> 3] ?? 0) >>> (7 - (at & 7))) & 1) === 1;
          (this.dark[y] as boolean[])[x] = bit !== ((x + y) % 2 === 0);
          at++;
        }
      }
      upwards = !upwards;
    }
  }
}
