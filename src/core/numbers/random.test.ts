import { deepStrictEqual, notDeepStrictEqual, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import {
  fillChance,
  fillNormal,
  fillUniform,
  permutationAt,
  philox,
  randomKey,
  randomUint32,
  uniformAt,
} from "./random.ts";

function blockOf(counter: number[], key: number[]): string {
  const out = new Uint32Array(4);
  const [c0, c1, c2, c3] = counter as [number, number, number, number];
  philox(c0, c1, c2, c3, key[0] as number, key[1] as number, out);
  return [...out].map((word) => word.toString(16).padStart(8, "0")).join(" ");
}

/** Philox written as its definition reads, on big integers. */
function oracle(counter: number[], key: number[]): string {
  const mask = 0xffffffffn;
  let [x0, x1, x2, x3] = counter.map((word) => BigInt(word >>> 0)) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map((word) => BigInt(word >>> 0)) as [bigint, bigint];
  for (let round = 0; round < 10; round++) {
    const product0 = 0xd2511f53n * x0;
    const product1 = 0xcd9e8d57n * x2;
    [x0, x1, x2, x3] = [(product1 >> 32n) ^ x1 ^ k0, product1 & mask, (product0 >> 32n) ^ x3 ^ k1, product0 & mask];
    k0 = (k0 + 0x9e3779b9n) & mask;
    k1 = (k1 + 0xbb67ae85n) & mask;
  }
  return [x0, x1, x2, x3].map((word) => word.toString(16).padStart(8, "0")).join(" ");
}

test("philox gives the published known answers", () => {
  strictEqual(blockOf([0, 0, 0, 0], [0, 0]), "6627e8d5 e169c58d bc57ac4c 9b00dbd8");
  const ones = 0xffffffff;
  strictEqual(blockOf([ones, ones, ones, ones], [ones, ones]), "408f276d 41c83b0e a20bc7c6 6d5451fd");
  strictEqual(
    blockOf([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
    "d16cfe09 94fdcceb 5001e420 24126ea1",
  );
});

test("philox equals its definition on big integers", () => {
  for (let i = 0; i < 300; i++) {
    const key = randomKey("oracle", i);
    const words = Array.from({ length: 6 }, (_, w) => randomUint32(key, w));
    strictEqual(blockOf(words.slice(0, 4), words.slice(4)), oracle(words.slice(0, 4), words.slice(4)));
  }
});

test("keys keep apart what differs and hold together what is equal", () => {
  deepStrictEqual(randomKey("seed", 1, "block_3"), randomKey("seed", 1, "block_3"));
  const keys = [
    randomKey("ab", "c"),
    randomKey("a", "bc"),
    randomKey("abc"),
    randomKey(1),
    randomKey("1"),
    randomKey(1, 0),
    randomKey(0, 1),
    randomKey("a", ""),
    randomKey("a"),
    randomKey("a\0"),
  ].map((key) => key.join(" "));
  strictEqual(new Set(keys).size, keys.length);
  deepStrictEqual(randomKey(-0), randomKey(0));
});

test("a draw depends on its index alone", () => {
  const key = randomKey("draws");
  const many = new Float32Array(1001);
  const few = new Float32Array(37);
  fillUniform(many, key, -2, 3);
  fillUniform(few, key, -2, 3);
  deepStrictEqual(few, many.slice(0, 37));
  strictEqual(many[17], Math.fround(-2 + 5 * ((randomUint32(key, 17) >>> 8) / 2 ** 24)));
  notDeepStrictEqual(randomUint32(key, 2 ** 35), randomUint32(key, 0));
});

function moments(values: Float32Array): { mean: number; deviation: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return { mean, deviation: Math.sqrt(square) };
}

test("distributions have the moments they are named for", () => {
  const values = new Float32Array(200_001);
  fillNormal(values, randomKey("normal"), 0.02);
  const normal = moments(values);
  strictEqual(Math.abs(normal.mean) < 2e-4 && Math.abs(normal.deviation - 0.02) < 2e-4, true, JSON.stringify(normal));
  fillUniform(values, randomKey("uniform"), -1, 1);
  const uniform = moments(values);
  strictEqual(Math.abs(uniform.mean) < 0.01 && Math.abs(uniform.deviation - Math.sqrt(1 / 3)) < 0.005, true);
  fillChance(values, randomKey("chance"), 0.1, 1, 0);
  strictEqual(Math.abs(moments(values).mean - 0.9) < 0.003, true);
  fillChance(values, randomKey("chance"), 0, 1, 0);
  strictEqual(moments(values).mean, 1);
  for (let i = 0; i < 1000; i++) {
    const draw = uniformAt(randomKey("u"), i);
    strictEqual(draw >= 0 && draw < 1, true);
  }
});

test("a permutation reaches every place exactly once, for any count", () => {
  for (const count of [1, 2, 3, 4, 5, 17, 64, 1000, 4097]) {
    const seen = new Set(Array.from({ length: count }, (_, i) => permutationAt(randomKey("shuffle", 1), i, count)));
    strictEqual(seen.size, count);
    strictEqual(Math.max(...seen), count - 1);
  }
});

test("permutations of different keys differ and do not keep order", () => {
  const order = (seed: number) =>
    Array.from({ length: 1000 }, (_, i) => permutationAt(randomKey("shuffle", seed), i, 1000));
  notDeepStrictEqual(order(1), order(2));
  const rising = order(3).filter((place, i, all) => i > 0 && place > (all[i - 1] as number)).length;
  strictEqual(rising > 400 && rising < 600, true, `${rising} of 999 neighbours rise`);
  const large = permutationAt(randomKey("shuffle"), 10 ** 12, 10 ** 12 + 7);
  strictEqual(large >= 0 && large < 10 ** 12 + 7, true);
});

test("the bits never change: weights of old sessions depend on them", () => {
  const values = new Float32Array(64);
  fillNormal(values, randomKey("golden", 7, "block_1.weight"), 1);
  const words = new Uint32Array(values.buffer);
  strictEqual(words.reduce((hash, word) => Math.imul(hash ^ word, 0x01000193), 0x811c9dc5) >>> 0, 2860560105);
  strictEqual(permutationAt(randomKey("golden"), 123, 60_000), 23361);
});
