import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { fromBfloat16, fromFloat16, roundToBfloat16, roundToFloat16, toBfloat16, toFloat16 } from "./half.ts";
import { randomKey, randomUint32 } from "./random.ts";

/** Floats of all sizes: random bit patterns, without NaN. */
function patterns(count: number): Float32Array {
  const key = randomKey("half test");
  const values = new Float32Array(Uint32Array.from({ length: count }, (_, i) => randomUint32(key, i)).buffer);
  return values.filter((value) => !Number.isNaN(value));
}

/** Values around every half: itself, the ties above it, and their neighbours. */
function aroundHalves(): Float32Array {
  const values: number[] = [];
  const word = new Uint32Array(1);
  const float = new Float32Array(word.buffer);
  for (let half = 0; half < 0x7c00; half += 7) {
    const low = Number(fromFloat16(Uint16Array.of(half))[0]);
    const high = half + 1 < 0x7c00 ? Number(fromFloat16(Uint16Array.of(half + 1))[0]) : 65536;
    float[0] = (low + high) / 2;
    const tie = word[0] as number;
    for (const near of [tie - 1, tie, tie + 1]) {
      word[0] = near;
      values.push(float[0], -float[0]);
    }
    values.push(low, -low);
  }
  return Float32Array.from(values);
}

test("every float16 survives the way to float32 and back", () => {
  const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
  const floats = fromFloat16(all);
  const back = toFloat16(floats);
  for (let i = 0; i < 65536; i++)
    if (Number.isNaN(floats[i])) strictEqual((back[i] as number) & 0x7e00, 0x7e00);
    else strictEqual(back[i], i);
});

test("float16 rounds as the platform's own Float16Array does", () => {
  for (const values of [aroundHalves(), patterns(20_000)]) {
    const expected = new Float16Array(values.length);
    expected.set(values);
    deepStrictEqual(toFloat16(values), new Uint16Array(expected.buffer));
    deepStrictEqual(fromFloat16(new Uint16Array(expected.buffer)), Float32Array.from(expected));
  }
});

test("bfloat16 takes the nearer neighbour, ties to even", () => {
  for (const value of patterns(5000)) {
    const rounded = roundToBfloat16(value);
    const word = new Uint32Array(Float32Array.of(value).buffer)[0] as number;
    const below = new Float32Array(Uint32Array.of(word & 0xffff0000).buffer)[0] as number;
    const above = new Float32Array(Uint32Array.of((word & 0xffff0000) + 0x10000).buffer)[0] as number;
    const part = word & 0xffff;
    const upper = (word >>> 16) & 1;
    strictEqual(rounded, part > 0x8000 || (part === 0x8000 && upper === 1) ? above : below);
  }
  deepStrictEqual(fromBfloat16(toBfloat16(Float32Array.of(1, -2.5, 0))), Float32Array.of(1, -2.5, 0));
  strictEqual(Number.isNaN(roundToBfloat16(Number.NaN)), true);
});

test("out of range becomes infinity, never a large wrong number", () => {
  strictEqual(roundToFloat16(65519), 65504);
  strictEqual(roundToFloat16(65520), Number.POSITIVE_INFINITY);
  strictEqual(roundToFloat16(-1e30), Number.NEGATIVE_INFINITY);
  strictEqual(roundToBfloat16(3.4e38), Number.POSITIVE_INFINITY);
  strictEqual(Number.isNaN(roundToFloat16(Number.NaN)), true);
});
