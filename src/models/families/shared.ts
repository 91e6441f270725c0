// What rows of several families have in common: sizes that follow from others, and options by their keys.

import type { Sizes } from "../decoder.ts";
import { choice, flag, gatedActivations, numeric, type Option } from "./row.ts";

export const headShare = ({ dim = 0, heads = 1 }: Partial<Sizes>) => dim / heads;
export const sameHeads = ({ heads = 1 }: Partial<Sizes>) => heads;
export const fourfold = ({ dim = 0 }: Partial<Sizes>) => 4 * dim;

export const tying = (otherwise: boolean) => flag("tie_word_embeddings", otherwise, { tied: true }, { tied: false });
export const attentionBiases = flag(
  "attention_bias",
  false,
  { qkvBias: true, outputBias: true },
  { qkvBias: false, outputBias: false },
);
export const ffnBiases = flag("mlp_bias", false, { ffnBias: true }, { ffnBias: false });
export const rmsEpsilon = (otherwise: number) => numeric("rms_norm_eps", "epsilon", otherwise);
export const gatedBy = (key: string, otherwise: string): Option => choice(key, otherwise, gatedActivations);

/** Llama's options with others in place of those that have the same key. */
export function withOptions(base: readonly Option[], ...changes: readonly Option[]): Option[] {
  const keys = new Set(changes.map(({ key }) => key));
  return [...base.filter(({ key }) => !keys.has(key)), ...changes];
}

export const without = (base: readonly Option[], ...keys: string[]) => base.filter(({ key }) => !keys.includes(key));
