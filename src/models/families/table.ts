// The table of families: one row each, written by difference where families are alike. It drives import and export; a
// property that is not here does not exist for either, and a config that asks for it is refused.

import { fail } from "../../core/errors.ts";
import { gemma, gemma2, gemma3, gemma3WithVision } from "./gemma-kin.ts";
import { bloom, falcon, gpt2, opt } from "./gpt-kin.ts";
import { granite, llama, mistral, mixtral, olmo2, phi3, qwen2, qwen3, smollm3 } from "./llama-kin.ts";
import { gptNeoX, phi } from "./parallel-kin.ts";
import type { Family } from "./row.ts";

export const families: readonly Family[] = [
  llama,
  qwen2,
  gpt2,
  mistral,
  qwen3,
  gemma,
  gemma2,
  gemma3,
  gemma3WithVision,
  phi,
  phi3,
  smollm3,
  olmo2,
  granite,
  gptNeoX,
  opt,
  bloom,
  falcon,
  mixtral,
];

export function familyOf(model: unknown): Family {
  return (
    families.find((family) => family.model === model) ??
    fail(
      "unimplemented",
      `config.json is of the model type ${JSON.stringify(model)}: ${families.map((family) => family.model).join(", ")} are supported`,
    )
  );
}
