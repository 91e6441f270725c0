// In how many bits a served model's weights are kept. It decides bits of answers, so it is part of what a replica is.

import { fail } from "../core/errors.ts";
import type { WeightBits } from "../graph/quantise.ts";

/** Absent: float32, as weights are stored. */
export type WeightFormat = "8bit" | "4bit";

const formats: Readonly<Record<WeightFormat, WeightBits>> = { "8bit": 8, "4bit": 4 };

export function bitsOf(format: WeightFormat | undefined): WeightBits | undefined {
  return format && formats[format];
}

/** Empty and "float32" stand for no format of few bits. */
export function parseWeightFormat(text: string): WeightFormat | undefined {
  if (text === "" || text === "float32") return undefined;
  if (Object.hasOwn(formats, text)) return text as WeightFormat;
  return fail("invalid_argument", `weights are float32, 8bit or 4bit, not "${text}"`);
}

/** The kernels are the native runtime's. */
export function checkWeightFormat(format: WeightFormat | undefined, numerics: string): void {
  if (format !== undefined && numerics === "portable")
    fail(
      "failed_precondition",
      `weights of ${format} need native numerics, and this model computes with portable ones: serve it in float32, or on PNodes with onnxruntime-node`,
    );
}
