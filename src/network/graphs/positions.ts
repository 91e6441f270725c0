// Position tables from our own sine, cosine and powers, so that they have the same bits on every machine: rotary ones,
// and the distances of ALiBi.

import { roundToBfloat16 } from "../../core/numbers/half.ts";
import { cos, log, pow, sin } from "../../core/numbers/math.ts";
import { float32, type Tensor } from "../../core/tensor.ts";

export interface Rope {
  readonly theta: number;
  readonly scaling?: RopeScaling;
  /** Only so many elements of a head are turned, its first ones; absent: all. */
  readonly dims?: number;
  /** Sines and cosines are multiplied with it, which makes scores larger or smaller. */
  readonly amplitude?: number;
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
    }
  /**
   * YaRN: waves that turn more than `betaFast` times within the original positions are kept, those that turn less than
   * `betaSlow` times are stretched, with a straight ramp over the waves between them.
   */
  | {
      readonly kind: "yarn";
      readonly factor: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      readonly originalPositions: number;
      /** The ramp begins and ends at whole waves. */
      readonly truncate: boolean;
    }
  /** Every wave has a factor of its own, as in LongRoPE. */
  | { readonly kind: "factors"; readonly factors: readonly number[] };

/** cos and sin of position * theta^(-2i / width), scaled as asked, each [positions, width / 2]. */
export function ropeTables(positions: number, width: number, rope: Rope): { cos: Tensor; sin: Tensor } {
  const half = width / 2;
  const cosines = new Float32Array(positions * half);
  const sines = new Float32Array(positions * half);
  const { amplitude = 1 } = rope;
  for (let i = 0; i < half; i++) {
    const frequency = scaledFrequency(1 / pow(rope.theta, (2 * i) / width), i, width, rope);
    for (let position = 0; position < positions; position++) {
      cosines[position * half + i] = amplitude * cos(position * frequency);
      sines[position * half + i] = amplitude * sin(position * frequency);
    }
  }
  return { cos: float32([positions, half], cosines), sin: float32([positions, half], sines) };
}

function scaledFrequency(frequency: number, wave: number, width: number, rope: Rope): number {
  const { scaling } = rope;
  switch (scaling?.kind) {
    case undefined:
      return frequency;
    case "linear":
      return frequency / scaling.factor;
    case "factors":
      return frequency / (scaling.factors[wave] as number);
    case "yarn": {
      const kept = 1 - yarnRamp(wave, width, rope.theta, scaling);
      return (frequency / scaling.factor) * (1 - kept) + frequency * kept;
    }
    case "llama3": {
      const stretched = frequency / scaling.factor;
      const { lowFrequencyFactor, highFrequencyFactor, originalPositions } = scaling;
      const turns = (originalPositions * frequency) / (2 * Math.PI);
      if (turns < lowFrequencyFactor) return stretched;
      if (turns > highFrequencyFactor) return frequency;
      const kept = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
      return (1 - kept) * stretched + kept * frequency;
    }
  }
}

/** 0 for waves that are kept, 1 for those that are stretched. */
function yarnRamp(wave: number, width: number, theta: number, yarn: RopeScaling & { readonly kind: "yarn" }): number {
  const { betaFast, betaSlow, originalPositions, truncate } = yarn;
  const waveThatTurns = (times: number) => (width * log(originalPositions / (times * 2 * Math.PI))) / (2 * log(theta));
  const [first, last] = [waveThatTurns(betaFast), waveThatTurns(betaSlow)];
  const low = Math.max(truncate ? Math.floor(first) : first, 0);
  const high = Math.min(truncate ? Math.ceil(last) : last, width - 1);
  // A ramp needs some length.
  const length = low === high ? 0.001 : high - low;
  return Math.min(1, Math.max(0, (wave - low) / length));
}

/** Scores fall with the distance of a key, in each head at a rate of its own. */
export interface Alibi {
  /** Of the distances; scores are scaled apart from them. */
  readonly scale: number;
  /** Slopes and distances are rounded to bfloat16 first, as Falcon was trained. */
  readonly bfloat16: boolean;
}

/** What is added to the score of each key, [heads, positions]. A softmax sees only differences along a row. */
export function alibiTable(heads: number, positions: number, { scale, bfloat16 }: Alibi): Tensor {
  const rounded = (value: number) => (bfloat16 ? roundToBfloat16(value) : Math.fround(value));
  const table = new Float32Array(heads * positions);
  for (const [head, slope] of alibiSlopes(heads).entries())
    for (let position = 0; position < positions; position++)
      table[head * positions + position] = rounded(rounded(slope) * position) * scale;
  return float32([heads, positions], table);
}

/** Powers of 2^(-8 / heads); where heads are no power of two, every second of the next finer series fills up. */
function alibiSlopes(heads: number): number[] {
  let whole = 1;
  while (2 * whole <= heads) whole *= 2;
  return Array.from({ length: heads }, (_, head) =>
    head < whole ? pow(2, (-8 * (head + 1)) / whole) : pow(2, (-8 * (2 * (head - whole) + 1)) / (2 * whole)),
  );
}
