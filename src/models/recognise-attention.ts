// What an attention node computes, all defaults written out: two nodes that give the same attend alike.

import { ropeOf } from "../network/catalogue/rope.ts";
import type { Alibi } from "../network/graphs/positions.ts";
import type { ResolvedNode } from "../network/resolve.ts";
import type { Layer, Traits } from "./decoder.ts";

export interface AttentionForm extends Layer {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly causal: boolean;
  readonly projected: boolean;
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
  readonly qkNorm: Traits["qkNorm"];
  readonly qkNormEpsilon: number;
  /** Undefined: 1 / sqrt(headDim). */
  readonly scoreScale: number | undefined;
  readonly scoreCap: number | undefined;
  readonly alibi: Alibi | undefined;
}

export function layerOf(node: ResolvedNode): AttentionForm {
  const { config, description, inputSignatures } = node;
  const has = (name: string) => description.parameters.some((parameter) => parameter.name === name);
  const heads = config.number("num_heads");
  const headDim = config.optionalNumber("head_dim") ?? (inputSignatures[0]?.shape[1] ?? 0) / heads;
  const qkNorm = (config.optionalText("qk_norm") ?? "none") as Traits["qkNorm"];
  const site = { id: node.id, config, inputs: inputSignatures };
  return {
    heads,
    kvHeads: config.optionalNumber("num_kv_heads") ?? heads,
    headDim,
    causal: config.flag("causal"),
    projected: config.flag("output_projection"),
    qkvBias: has("qkv.bias"),
    outputBias: has("output.bias"),
    qkNorm,
    qkNormEpsilon: qkNorm === "none" ? 0 : (config.optionalNumber("qk_norm_epsilon") ?? 1e-6),
    scoreScale: config.optionalNumber("score_scale"),
    scoreCap: config.optionalNumber("score_cap"),
    window: config.optionalNumber("window"),
    rope: ropeOf(site, headDim),
    alibi:
      config.text("position_encoding") === "alibi"
        ? {
            scale: config.optionalNumber("alibi_scale") ?? 1,
            bfloat16: config.has("alibi_bfloat16") && config.flag("alibi_bfloat16"),
          }
        : undefined,
  };
}
