// Chance without state: a counter-based generator (Philox 4x32, 10 rounds) keyed by a tuple such as
// (seed, VNode, step, microbatch). Whatever is drawn can be drawn again, alone, anywhere, with the same bits.

import { assert } from "../assert.ts";
import { cos, log, sin } from "./math.ts";

/** Two key words, then the two upper words of the counter; the lower two count the draws. */
export type RandomKey = Uint32Array & { readonly length: 4 };

const multiplier0 = 0xd2511f53;
const multiplier1 = 0xcd9e8d57;
const weyl0 = 0x9e3779b9;
const weyl1 = 0xbb67ae85;
const rounds = 10;

/** The upper 32 bits of a product of unsigned 32-bit numbers. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16);
  // The sum fits 32 bits as an unsigned number, so that its low and high halves are right even if it reads negative.
  const upper = middle & 0xffff;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + ((Math.imul(aLow, bHigh) + upper) >>> 16)) | 0;
}

const block = new Uint32Array(4);

/** One block of four words to `block`, from a counter of four words and a key of two. */
export function philox(c0: number, c1: number, c2: number, c3: number, k0: number, k1: number, out = block): void {
  let x0 = c0 | 0;
  let x1 = c1 | 0;
  let x2 = c2 | 0;
  let x3 = c3 | 0;
  let key0 = k0 | 0;
  let key1 = k1 | 0;
  for (let round = 0; round < rounds; round++) {
    const high0 = multiplyHigh(multiplier0, x0);
    const low0 = Math.imul(multiplier0, x0);
    const high1 = multiplyHigh(multiplier1, x2);
    const low1 = Math.imul(multiplier1, x2);
    x0 = high1 ^ x1 ^ key0;
    x1 = low1;
    x2 = high0 ^ x3 ^ key1;
    x3 = low0;
    key0 = (key0 + weyl0) | 0;
    key1 = (key1 + weyl1) | 0;
  }
  out[0] = x0;
  out[1] = x1;
  out[2] = x2;
  out[3] = x3;
}

const number64 = new DataView(new ArrayBuffer(8));

/** A key from names and numbers; ("ab", "c") and ("a", "bc") differ, as do 1 and "1". */
export function randomKey(...parts: (string | number)[]): RandomKey {
  const state = new Uint32Array(4);
  const absorb = (word0: number, word1: number) => {
    const [s0, s1, s2, s3] = state as unknown as [number, number, number, number];
    philox(s0, s1, s2, s3, word0, word1);
    for (let i = 0; i < 4; i++) state[i] = (state[i] as number) ^ (block[i] as number);
  };
  absorb(0x64636e72, parts.length);
  for (const part of parts) {
    if (typeof part === "number") {
      number64.setFloat64(0, part === 0 ? 0 : part, true);
      absorb(1, 8);
      absorb(number64.getUint32(0, true), number64.getUint32(4, true));
    } else {
      absorb(2, part.length);
      for (let i = 0; i < part.length; i += 4) absorb(unitsAt(part, i), unitsAt(part, i + 2));
    }
  }
  return state as RandomKey;
}

/** Two UTF-16 code units as one word; 0 beyond the end. */
function unitsAt(text: string, at: number): number {
  const first = at < text.length ? text.charCodeAt(at) : 0;
  const second = at + 1 < text.length ? text.charCodeAt(at + 1) : 0;
  return first | (second << 16);
}

/** Block number `at` of a key's stream, to `block`. */
function blockAt(key: RandomKey, at: number): void {
  philox(at, Math.floor(at / 4294967296), key[2] as number, key[3] as number, key[0] as number, key[1] as number);
}

/** Draw number `index` of the key's stream. */
export function randomUint32(key: RandomKey, index: number): number {
  blockAt(key, Math.floor(index / 4));
  return block[index % 4] as number;
}

/** Uniform in [0, 1) with 53 bits, from two words of the block `index`. */
export function uniformAt(key: RandomKey, index: number): number {
  blockAt(key, index);
  return ((block[0] as number) * 2097152 + ((block[1] as number) >>> 11)) / 9007199254740992;
}

/** Element i comes from word i of the stream, with 24 bits: every value is exact in float32 before scaling. */
export function fillUniform(out: Float32Array, key: RandomKey, low: number, high: number): void {
  const range = high - low;
  for (let i = 0; i < out.length; i++) {
    if ((i & 3) === 0) blockAt(key, i >>> 2);
    out[i] = low + range * (((block[i & 3] as number) >>> 8) / 16777216);
  }
}

/** Box-Muller: elements 2i and 2i + 1 come from words 2i and 2i + 1 of the stream. */
export function fillNormal(out: Float32Array, key: RandomKey, deviation: number): void {
  for (let i = 0; i < out.length; i += 2) {
    if ((i & 3) === 0) blockAt(key, i >>> 2);
    const radius = deviation * Math.sqrt(-2 * log(((block[i & 3] as number) + 0.5) / 4294967296));
    const angle = 6.283185307179586 * ((block[(i & 3) + 1] as number) / 4294967296);
    out[i] = radius * cos(angle);
    if (i + 1 < out.length) out[i + 1] = radius * sin(angle);
  }
}

/** A word below this means "drop". */
export function chanceThreshold(rate: number): number {
  assert(rate >= 0 && rate <= 1, `a rate of ${rate} is a probability`);
  return Math.min(Math.round(rate * 4294967296), 4294967295);
}

/** Each element is `dropValue` with probability `rate`, else `keepValue`; element i comes from word i. */
export function fillChance(
  out: Float32Array,
  key: RandomKey,
  rate: number,
  keepValue: number,
  dropValue: number,
): void {
  const threshold = chanceThreshold(rate);
  for (let i = 0; i < out.length; i++) {
    if ((i & 3) === 0) blockAt(key, i >>> 2);
    out[i] = (block[i & 3] as number) < threshold ? dropValue : keepValue;
  }
}

const feistelRounds = 6;

/**
 * Where index goes in a shuffle of [0, count): a bijection that needs no table. A Feistel network over the next
 * power of four permutes a domain at most four times as large; walking its cycle ends inside [0, count).
 */
export function permutationAt(key: RandomKey, index: number, count: number): number {
  assert(Number.isInteger(index) && index >= 0 && index < count, `index ${index} is in [0, ${count})`);
  assert(count <= 2 ** 52, `a permutation of ${count} fits the Feistel network`);
  let halfBits = 1;
  while (4 ** halfBits < count) halfBits++;
  const half = 2 ** halfBits;
  let at = index;
  do {
    let left = Math.floor(at / half);
    let right = at % half;
    for (let round = 0; round < feistelRounds; round++) {
      philox(right, round, key[2] as number, key[3] as number, key[0] as number, (key[1] as number) ^ 0x66656973);
      const mixed = (left ^ ((block[0] as number) & (half - 1))) >>> 0;
      left = right;
      right = mixed;
    }
    at = left * half + right;
  } while (at >= count);
  return at;
}
