// Rotary position tables from our own sine and cosine, so that they have the same bits on every machine.

import { cos, pow, sin } from "../core/math.ts";
import { float32, type Tensor } from "../core/tensor.ts";

export interface Rope {
  readonly theta: number;
  readonly scaling?: RopeScaling;
}

/** How a model that learned few positions was stretched to more of them. */
export type RopeScaling =
  /** Every position is divided by `factor`. */
  | { readonly kind: "linear"; readonly factor: number }
  /**
   * As in Llama 3.1: waves that turn less than `lowFrequencyFactor` times within the original positions are stretched,
   * those that turn more than `highFrequencyFactor` times are kept, and those between are mixed.
   */
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalPositions: number;
    };

/** cos and sin of position * theta^(-2i / width), scaled as asked, each [positions, width / 2]. */
export function ropeTables(positions: number, width: number, rope: Rope): { cos: Tensor; sin: Tensor } {
  const half = width / 2;
  const cosines = new Float32Array(positions * half);
  const sines = new Float32Array(positions * half);
  for (let i = 0; i < half; i++) {
    const frequency = scaledFrequency(1 / pow(rope.theta, (2 * i) / width), rope.scaling);
    for (let position = 0; position < positions; position++) {
      cosines[position * half + i] = cos(position * frequency);
      sines[position * half + i] = sin(position * frequency);
    }
  }
  return { cos: float32([positions, half], cosines), sin: float32([positions, half], sines) };
}

function scaledFrequency(frequency: number, scaling: RopeScaling | undefined): number {
  if (scaling === undefined) return frequency;
  const stretched = frequency / scaling.factor;
  if (scaling.kind === "linear") return stretched;
  const { lowFrequencyFactor, highFrequencyFactor, originalPositions } = scaling;
  const turns = (originalPositions * frequency) / (2 * Math.PI);
  if (turns < lowFrequencyFactor) return stretched;
  if (turns > highFrequencyFactor) return frequency;
  const kept = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
  return (1 - kept) * stretched + kept * frequency;
}
