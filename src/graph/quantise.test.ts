// Weights of few bits: blocks of GGUF come out as they went in, what is lost is told, and a unit of them computes what the
// rounded weights give.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import { float32, type Tensor } from "../core/tensor.ts";
import { unpacked } from "./operators/matrices/matmul-n-bits.ts";
import { quantise, type WeightBits } from "./quantise.ts";

function normal(shape: readonly number[], seed: string): Tensor {
  const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
  fillNormal(data, randomKey("quantise", seed), 1);
  return float32(shape, data);
}

/** [columns, inner] as floats again. */
function restored({ weights, scales }: ReturnType<typeof quantise>, bits: WeightBits): Float32Array {
  const count = (weights.data.length * 8) / bits;
  const data = weights.data as Uint8Array;
  return Float32Array.from({ length: count }, (_, i) =>
    Math.fround(unpacked(data, i, bits) * ((scales.data as Float32Array)[Math.floor(i / 32)] as number)),
  );
}

for (const bits of [8, 4] as const) {
  test(`${bits} bits: what is lost is told, and is what it should be`, () => {
    const matrix = normal([5, 96], "a");
    const found = quantise(matrix, bits, true);
    const again = restored(found, bits);
    let [lost, size] = [0, 0];
    for (const [i, value] of (matrix.data as Float32Array).entries()) {
      lost += Math.abs(value - again[i]!);
      size += Math.abs(value);
    }
    assert.ok(Math.abs(found.error - lost / size) < 1e-6);
    assert.ok(bits === 8 ? found.error < 0.01 : found.error > 0.03 && found.error < 0.12, `${found.error}`);
  });

  test(`${bits} bits: blocks that were made elsewhere are kept exactly, their scales too`, () => {
    const first = quantise(normal([7, 64], "b"), bits, true);
    // As a file has them: scales of half precision.
    const halves = Float32Array.from(first.scales.data as Float32Array, (scale) =>
      Math.fround(Math.round(scale * 1024) / 1024),
    );
    const floats = restored({ ...first, scales: { ...first.scales, data: halves } }, bits);
    const second = quantise(float32([7, 64], floats), bits, true);
    assert.deepEqual(second.weights.data, first.weights.data);
    assert.deepEqual(second.scales.data, halves);
    assert.equal(second.error, 0);
  });

  test(`${bits} bits: a matrix that lies the other way round gives the same`, () => {
    const matrix = normal([6, 32], "c");
    const turned = new Float32Array(6 * 32);
    for (let row = 0; row < 6; row++)
      for (let k = 0; k < 32; k++) turned[k * 6 + row] = (matrix.data as Float32Array)[row * 32 + k] as number;
    const [a, b] = [quantise(matrix, bits, true), quantise(float32([32, 6], turned), bits, false)];
    assert.deepEqual([a.weights, a.scales], [b.weights, b.scales]);
  });
}

test("a block of zeros stays zeros", () => {
  const { weights, scales, error } = quantise(float32([1, 32], new Float32Array(32)), 4, true);
  assert.deepEqual([...restored({ weights, scales, error }, 4)], Array(32).fill(0));
  assert.equal(error, 0);
});
