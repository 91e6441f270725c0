// Texts that are nearly the same, by MinHash: of each text's runs of five words the smallest of 64 hashes each are kept; two
// texts agree in about as many of them as they share runs. Texts that agree in one of 16 bands of four are compared.

import type { Work } from "../../core/aside.ts";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import { pipelineLane } from "../kit.ts";
import { recordsOf, rowOf, textOf } from "../records.ts";

export const hashes = 64;
export const bands = 16;
const bandHashes = hashes / bands;
const runWords = 5;
/** Two numbers of 32 bits for each band. */
export const bandKeyBytes = 8;
export const signatureBytes = hashes * 4;

/** Compared as signed numbers, which a processor does at once: with the highest bit turned over their order is that of unsigned ones. */
const highestBit = 0x80000000;
const multipliers = new Int32Array(hashes);
const offsets = new Int32Array(hashes);
const key = randomKey("pipeline minhash");
for (let i = 0; i < hashes; i++) {
  multipliers[i] = randomUint32(key, 2 * i) | 1;
  offsets[i] = randomUint32(key, 2 * i + 1) ^ highestBit;
}

/** Beyond ASCII, of what \s means. */
const wideSpaces = new Set(
  "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
    .split("")
    .map((character) => character.charCodeAt(0)),
);

function isSpace(unit: number): boolean {
  if (unit < 0x80) return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
  return wideSpaces.has(unit);
}

/** Hashes of a text's words into `known`: FNV-1a over code units, then stirred, since neighbours must not have neighbouring hashes. */
function hashWords(text: string): number {
  let words = 0;
  let start = 0;
  let hash = 2166136261;
  for (let i = 0; i <= text.length; i++) {
    const unit = i < text.length ? text.charCodeAt(i) : 0x20;
    if (!isSpace(unit)) {
      hash = Math.imul(hash ^ unit, 16777619);
      continue;
    }
    if (i > start) {
      if (words === known.length) {
        const grown = new Int32Array(known.length * 2);
        grown.set(known);
        known = grown;
      }
      known[words++] = stirred(hash);
      hash = 2166136261;
    }
    start = i + 1;
  }
  return words;
}

function stirred(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

const least = new Int32Array(hashes);
let known = new Int32Array(1 << 12);

export function signatureOf(text: string, into: Uint32Array): void {
  const words = hashWords(text.toLowerCase());
  const runs = Math.max(1, words - runWords + 1);
  least.fill(0x7fffffff);
  for (let start = 0; start < runs; start++) {
    let run = 0x811c9dc5;
    const end = Math.min(words, start + runWords);
    for (let i = start; i < end; i++) run = Math.imul(run ^ (known[i] as number), 0x9e3779b1) ^ (run >>> 15);
    const hash = stirred(run) | 0;
    for (let i = 0; i < hashes; i++) {
      const value = (Math.imul(multipliers[i] as number, hash) + (offsets[i] as number)) | 0;
      if (value < (least[i] as number)) least[i] = value;
    }
  }
  for (let i = 0; i < hashes; i++) into[i] = (least[i] as number) ^ highestBit;
}

/** The share of hashes in which two signatures agree, which estimates the share of runs that the texts have in common. */
export function likeness(a: Uint32Array, b: Uint32Array): number {
  let same = 0;
  for (let i = 0; i < hashes; i++) if (a[i] === b[i]) same++;
  return same / hashes;
}

function bandKeys(signature: Uint32Array, into: Uint32Array, at: number, band: number): void {
  let low = 0x811c9dc5;
  let high = 0x9e3779b1;
  for (let i = band * bandHashes; i < (band + 1) * bandHashes; i++) {
    low = stirred(low ^ (signature[i] as number));
    high = stirred(Math.imul(high, 31) ^ (signature[i] as number));
  }
  into[at] = low;
  into[at + 1] = high;
}

interface SigningInput {
  readonly content: Uint8Array;
  readonly count: number;
  readonly field: string;
  readonly where: string;
}

/** The keys of the first band of all records, then those of the second and so on, then all signatures. */
export const signing: Work<SigningInput, Uint8Array> = {
  lane: pipelineLane,
  module: import.meta.url,
  name: "signing",
  what: "texts that are compared",
  deadlineMs: 120_000,
  run: ({ content, count, field, where }) => {
    // One block from the beginning: of short rows it is many times what was read, and each copy counts.
    const all = new Uint32Array(count * (bands * 2 + hashes));
    const keys = all.subarray(0, count * bands * 2);
    const signatures = all.subarray(count * bands * 2);
    let row = 0;
    for (const record of recordsOf(content)) {
      const signature = signatures.subarray(row * hashes, (row + 1) * hashes);
      signatureOf(textOf(rowOf(record), field, where), signature);
      for (let band = 0; band < bands; band++) bandKeys(signature, keys, (band * count + row) * 2, band);
      row++;
    }
    return [new Uint8Array(all.buffer)];
  },
};
