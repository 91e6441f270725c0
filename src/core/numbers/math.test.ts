import { strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { cos, erf, exp, expm1, log, pow, sin, tanh } from "./math.ts";
import { randomKey, uniformAt } from "./random.ts";

/** Distance in units in the last place of the expected value. */
function ulps(actual: number, expected: number): number {
  if (Object.is(actual, expected) || actual === expected) return 0;
  if (!Number.isFinite(actual) || !Number.isFinite(expected)) return Number.POSITIVE_INFINITY;
  const unit = Math.max(2 ** (Math.floor(Math.log2(Math.abs(expected))) - 52), Number.MIN_VALUE);
  return Math.abs(actual - expected) / unit;
}

function samples(name: string, low: number, high: number, count = 4000): number[] {
  const key = randomKey("math test", name);
  return Array.from({ length: count }, (_, i) => low + (high - low) * uniformAt(key, i));
}

function worst(ours: (x: number) => number, theirs: (x: number) => number, inputs: number[]): number {
  return inputs.reduce((most, x) => Math.max(most, ulps(ours(x), theirs(x))), 0);
}

function within(limit: number, measured: number, what: string): void {
  strictEqual(measured <= limit, true, `${what} is ${measured} units in the last place off, at most ${limit} allowed`);
}

/** FNV-1a over the bits of doubles. */
function hashOf(values: number[]): string {
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(Float64Array.from(values).buffer)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16);
}

test("each function agrees with the platform's to a few units in the last place", () => {
  within(2, worst(exp, Math.exp, samples("exp", -700, 700)), "exp");
  within(2, worst(exp, Math.exp, samples("exp small", -1, 1)), "exp near 0");
  within(4, worst(expm1, Math.expm1, samples("expm1", -5, 5)), "expm1");
  within(2, worst(log, Math.log, samples("log", 1e-9, 1e9)), "log");
  within(2, worst(log, Math.log, samples("log near 1", 0.5, 2)), "log near 1");
  within(2, worst(sin, Math.sin, samples("sin", -100_000, 100_000)), "sin");
  within(2, worst(cos, Math.cos, samples("cos", -100_000, 100_000)), "cos");
  within(4, worst(tanh, Math.tanh, samples("tanh", -5, 5)), "tanh");
});

test("pow stays accurate where exp(y log x) would not", () => {
  const steps = [1, 2, 10, 1000, 12_345];
  for (const base of [0.9, 0.95, 0.999, 0.9999, 1.0001, 10])
    within(
      4,
      worst(
        (y) => pow(base, y),
        (y) => exactPower(base, y),
        steps.filter((y) => y * Math.abs(Math.log(base)) < 700),
      ),
      `pow ${base}`,
    );
  within(
    4,
    worst(
      (y) => pow(10_000, y),
      (y) => 10_000 ** y,
      samples("pow", -2, 2),
    ),
    "pow 10000",
  );
  strictEqual(pow(2, 10), 1024);
  strictEqual(pow(-2, 3), -8);
  strictEqual(pow(0, 2), 0);
  strictEqual(Number.isNaN(pow(-2, 0.5)), true);
});

/** base^y by exact integers: the double is a fraction over a power of two. */
function exactPower(base: number, y: number): number {
  const scaled = BigInt(base * 2 ** 60);
  const guard = 1200n;
  let value = 1n << guard;
  for (let i = 0; i < y; i++) {
    value = (value * scaled) >> 60n;
  }
  // 64 leading bits are more than a double holds; sticky bits below them do not matter for a few ulp.
  const length = BigInt(value.toString(2).length);
  const shift = length > 64n ? length - 64n : 0n;
  const power = Number(shift - guard);
  return Number(value >> shift) * 2 ** Math.trunc(power / 2) * 2 ** (power - Math.trunc(power / 2));
}

test("erf matches tabulated values and its own derivative", () => {
  within(4, ulps(erf(0.5), 0.5204998778130465), "erf(0.5)");
  within(4, ulps(erf(1), 0.8427007929497149), "erf(1)");
  within(4, ulps(erf(2), 0.9953222650189527), "erf(2)");
  within(4, ulps(erf(3), 0.9999779095030014), "erf(3)");
  for (const x of samples("erf", -3, 3, 200)) {
    const slope = (erf(x + 1e-5) - erf(x - 1e-5)) / 2e-5;
    strictEqual(Math.abs(slope - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x)) < 1e-9, true, `erf'(${x})`);
  }
});

test("edges are what IEEE says they should be", () => {
  strictEqual(exp(-800), 0);
  strictEqual(exp(800), Number.POSITIVE_INFINITY);
  strictEqual(exp(0), 1);
  within(2, ulps(exp(-740), Math.exp(-740)), "exp of a subnormal result");
  strictEqual(log(0), Number.NEGATIVE_INFINITY);
  strictEqual(Number.isNaN(log(-1)), true);
  within(2, ulps(log(5e-324), Math.log(5e-324)), "log of the smallest number");
  strictEqual(tanh(1000), 1);
  strictEqual(erf(-30), -1);
  strictEqual(Number.isNaN(sin(Number.POSITIVE_INFINITY)), true);
  for (const f of [exp, expm1, log, sin, cos, tanh, erf]) strictEqual(Number.isNaN(f(Number.NaN)), true);
});

test("the bits never change: weights of old sessions depend on them", () => {
  const inputs = Array.from({ length: 1000 }, (_, i) => (i - 500) / 37);
  const positive = inputs.map((x) => Math.abs(x) + 0.001);
  const hashes = [
    hashOf(inputs.map(exp)),
    hashOf(inputs.map(expm1)),
    hashOf(positive.map(log)),
    hashOf(inputs.map(sin)),
    hashOf(inputs.map(cos)),
    hashOf(inputs.map(tanh)),
    hashOf(inputs.map(erf)),
    hashOf(positive.map((x) => pow(x, 1.7))),
  ];
  strictEqual(hashes.join(" "), "e9d72dc5 7b18dbe3 a15020f3 30d58482 f2cb22a 2210f6a2 92c7e640 df497f01");
});
