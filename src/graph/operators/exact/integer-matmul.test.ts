import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { allocate, type Tensor } from "../../../core/tensor.ts";
import { integerMatMul, roundedInteger } from "./integer-matmul.ts";

function product(a: Tensor, b: Tensor): Float32Array {
  const infos = [a, b].map(({ dtype, shape }, i) => ({ name: String(i), dtype, shape }));
  const [type] = integerMatMul.infer(infos, {});
  const out = allocate("float32", type?.shape ?? []);
  integerMatMul.plan(infos, [{ name: "y", ...type } as never], {})([a.data, b.data], [out.data]);
  return out.data as Float32Array;
}

/** Whole numbers up to 2^21 in size, the largest among them. */
function wholes(shape: readonly number[], seed: number): Tensor & { data: Float32Array } {
  const count = shape.reduce((size, each) => size * each, 1);
  let state = seed;
  const data = Float32Array.from({ length: count }, (_, i) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return i % 7 === 0 ? 2 ** 21 * (i % 2 === 0 ? 1 : -1) : (state % 2 ** 22) - 2 ** 21;
  });
  return { dtype: "float32", shape: [...shape], data };
}

test("sums are those of unbounded integers, rounded by the stated rule", () => {
  const [a, b] = [wholes([3, 600], 1), wholes([600, 5], 2)];
  const y = product(a, b);
  for (let row = 0; row < 3; row++)
    for (let column = 0; column < 5; column++) {
      let expected = 0;
      for (let block = 0; block < 600; block += 256) {
        let sum = 0n;
        for (let k = block; k < Math.min(600, block + 256); k++)
          sum += BigInt(a.data[row * 600 + k] as number) * BigInt(b.data[k * 5 + column] as number);
        // Down to a multiple of 2^24, then the rest: shifts of BigInts round down.
        const upper = sum >> 24n;
        const rounded = Math.fround(Math.fround(Number(upper)) * 2 ** 24 + Number(sum - (upper << 24n)));
        expected = block === 0 ? rounded : Math.fround(expected + rounded);
      }
      strictEqual(y[row * 5 + column], expected);
    }
});

test("within 256 products no order matters", () => {
  const [a, b] = [wholes([4, 256], 3), wholes([256, 4], 4)];
  const backwards = (k: number) => 255 - k;
  const turnedA = { ...a, data: a.data.map((_, i) => a.data[i - (i % 256) + backwards(i % 256)] as number) };
  const turnedB = { ...b, data: b.data.map((_, i) => b.data[backwards(Math.floor(i / 4)) * 4 + (i % 4)] as number) };
  deepStrictEqual(product(turnedA, turnedB), product(a, b));
});

test("whole numbers that floats hold stay as they are, and others are a unit in the last place away at most", () => {
  for (const value of [0, 1, -1, 2 ** 24 - 1, -(2 ** 24), 123456789 * 2 ** 10, -(2 ** 40)])
    strictEqual(roundedInteger(value), Math.fround(value));
  for (const value of [2 ** 50 - 1, -(2 ** 50) + 1, 1234567890123, -987654321987])
    strictEqual(Math.abs(roundedInteger(value) - value) <= 2 ** (Math.floor(Math.log2(Math.abs(value))) - 23), true);
});
