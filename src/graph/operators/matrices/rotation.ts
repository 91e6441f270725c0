// The rotation of pairs that Rope and RotaryEmbedding mean.

import type { Shape } from "../../../core/tensor.ts";
import type { Kernel } from "../operator.ts";

/** Inputs: x [.., seq, width], cos and sin [seq, width / 2]. */
export function rotationKernel(shape: Shape, interleaved: boolean): Kernel {
  const [sequence, width] = shape.slice(-2) as [number, number];
  const half = width / 2;
  return (data, results) => {
    const [x, cos, sin] = data as [Float32Array, Float32Array, Float32Array];
    const y = results[0] as Float32Array;
    for (let row = 0; row < y.length / width; row++)
      for (let i = 0; i < half; i++) {
        const [first, second] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
        const angle = (row % sequence) * half + i;
        const [c, s] = [cos[angle] as number, sin[angle] as number];
        const [a, b] = [x[row * width + first] as number, x[row * width + second] as number];
        y[row * width + first] = a * c - b * s;
        y[row * width + second] = a * s + b * c;
      }
  };
}
