// Rotary position tables from our own sine and cosine, so that they have the same bits on every machine.

import { cos, pow, sin } from "../core/math.ts";
import { float32, type Tensor } from "../core/tensor.ts";

/** cos and sin of position * theta^(-2i / width), each [positions, width / 2]. */
export function ropeTables(positions: number, width: number, theta: number): { cos: Tensor; sin: Tensor } {
  const half = width / 2;
  const cosines = new Float32Array(positions * half);
  const sines = new Float32Array(positions * half);
  for (let i = 0; i < half; i++) {
    const frequency = 1 / pow(theta, (2 * i) / width);
    for (let position = 0; position < positions; position++) {
      cosines[position * half + i] = cos(position * frequency);
      sines[position * half + i] = sin(position * frequency);
    }
  }
  return { cos: float32([positions, half], cosines), sin: float32([positions, half], sines) };
}
