// adapter_config.json as PEFT writes it: what of it is read, what changes nothing here, and nothing else.

import { fail } from "../../core/errors.ts";
import { written } from "../../core/words/written.ts";

export interface PeftConfig {
  readonly rank: number;
  readonly alpha: number;
}

/** Of training, of where it came from, or of ways to begin: the matrices are what they are. */
const harmless = new Set([
  ...["base_model_name_or_path", "revision", "peft_version", "task_type", "inference_mode", "auto_mapping"],
  ...["lora_dropout", "init_lora_weights", "loftq_config", "eva_config", "corda_config", "lora_ga_config"],
  ...["megatron_config", "megatron_core", "qalora_group_size", "runtime_config", "target_modules", "exclude_modules"],
  ...["layers_to_transform", "layers_pattern", "fan_in_fan_out", "ensure_weight_tying"],
]);

/** Values that ask for nothing. */
function isNothing(value: unknown): boolean {
  if (value === null || value === undefined || value === false) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

export function readPeftConfig(config: Readonly<Record<string, unknown>>): PeftConfig {
  const { peft_type: kind, r: rank, lora_alpha: alpha, bias = "none", ...rest } = config;
  if (kind !== "LORA") fail("unimplemented", `adapter_config.json has peft_type ${written(kind)}: LORA is known`);
  if (!Number.isInteger(rank) || (rank as number) < 1) fail("invalid_argument", "adapter_config.json has no rank r");
  if (typeof alpha !== "number" || !(alpha > 0)) fail("invalid_argument", "adapter_config.json has no lora_alpha");
  if (bias !== "none") fail("unimplemented", `adapter_config.json has bias ${written(bias)}: none is known`);
  for (const [key, value] of Object.entries(rest))
    if (!harmless.has(key) && !isNothing(value))
      fail("unimplemented", `adapter_config.json asks for ${key.slice(0, 80)}, which is not known here`);
  return { rank: rank as number, alpha };
}

export function peftConfig(
  rank: number,
  alpha: number,
  modules: readonly string[],
  more: { readonly turned: boolean; readonly base: string },
): Record<string, unknown> {
  return {
    ...{ peft_type: "LORA", task_type: "CAUSAL_LM", inference_mode: true, base_model_name_or_path: more.base },
    ...{ r: rank, lora_alpha: alpha, lora_dropout: 0, bias: "none", fan_in_fan_out: more.turned },
    target_modules: [...modules],
  };
}

export const peftPrefix = "base_model.model.";
