import assert from "node:assert/strict";
import { test } from "node:test";
import { fromInt8, int8Bytes, toInt8 } from "./int8.ts";
import { fillNormal, randomKey } from "./random.ts";
import { areFiniteOnWire } from "./wire-types.ts";

function normal(count: number, deviation = 1): Float32Array {
  const values = new Float32Array(count);
  fillNormal(values, randomKey("int8 test", deviation), deviation);
  return values;
}

test("each element is off by at most half of its row's scale", () => {
  const shape = [5, 3, 64];
  const source = normal(960);
  // Rows of very different sizes do not spoil each other.
  for (let i = 0; i < 64; i++) source[i] = (source[i] as number) * 1e-6;
  const back = fromInt8(toInt8(source, shape), shape);
  for (let row = 0; row < 15; row++) {
    const values = source.subarray(row * 64, row * 64 + 64);
    const scale = Math.max(...values.map(Math.abs)) / 127;
    for (let i = 0; i < 64; i++)
      assert.ok(Math.abs((back[row * 64 + i] as number) - (values[i] as number)) <= scale * 0.5000001);
  }
});

test("what was rounded once is not rounded again", () => {
  const shape = [8, 33];
  const once = fromInt8(toInt8(normal(264), shape), shape);
  assert.deepEqual(fromInt8(toInt8(once, shape), shape), once);
});

test("rows of zeros, scalars and the largest elements survive", () => {
  assert.deepEqual(fromInt8(toInt8(new Float32Array(6), [2, 3]), [2, 3]), new Float32Array(6));
  assert.deepEqual([...fromInt8(toInt8(Float32Array.of(-3.5), []), [])], [-3.5]);
  assert.deepEqual([...fromInt8(toInt8(Float32Array.of(127, -127, 1), [3]), [3])], [127, -127, 1]);
});

test("halves are rounded up, whatever their sign", () => {
  assert.deepEqual([...fromInt8(toInt8(Float32Array.of(127, 2.5, -2.5), [3]), [3])], [127, 3, -2]);
});

test("it takes a quarter of the bytes and four for each row", () => {
  assert.equal(int8Bytes([4, 128, 512]), 4 * 128 * 512 + 4 * 128 * 4);
  assert.equal(toInt8(normal(512), [2, 256]).byteLength, int8Bytes([2, 256]));
});

test("scales that are no number, negative or too large are not finite", () => {
  const shape = [1, 4];
  const bytes = toInt8(normal(4), shape);
  assert.ok(areFiniteOnWire("int8", shape, bytes));
  for (const scale of [Number.NaN, Number.POSITIVE_INFINITY, -1, 3e38]) {
    const spoiled = bytes.slice();
    new Float32Array(spoiled.buffer, 0, 1)[0] = scale;
    assert.ok(!areFiniteOnWire("int8", shape, spoiled), `${scale}`);
  }
});

test("bytes that do not begin at a multiple of four are read all the same", () => {
  const shape = [2, 5];
  const packed = toInt8(normal(10), shape);
  const shifted = new Uint8Array(packed.byteLength + 1);
  shifted.set(packed, 1);
  assert.deepEqual(fromInt8(shifted.subarray(1), shape), fromInt8(packed, shape));
});
