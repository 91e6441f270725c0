// Phi and GPT-NeoX: attention and feed-forward side by side, rotated in a part of each head.

import { llama, llamaTensors } from "./llama-kin.ts";
import { plainRope } from "./rope.ts";
import { choice, type Family, flag, numeric, plainActivations } from "./row.ts";
import { headShare, sameHeads, tying } from "./shared.ts";

export const phi: Family = {
  ...llama,
  model: "phi",
  architecture: "PhiForCausalLM",
  traits: {
    norm: "layernorm",
    parallel: 1,
    qkvBias: true,
    outputBias: true,
    ffnBias: true,
    headBias: true,
  },
  options: [
    numeric("layer_norm_eps", "epsilon", 1e-5),
    choice("hidden_act", "gelu_new", plainActivations),
    tying(false),
    flag("qk_layernorm", false, { qkNorm: "head_layernorm" }, { qkNorm: "none" }),
  ],
  rope: { ...plainRope, share: { key: "partial_rotary_factor", otherwise: 0.5 } },
  harmless: ["auto_map"],
  tensors: {
    prefixes: ["model.", ""],
    embedding: "embed_tokens",
    layer: "layers.{}.",
    norm: "input_layernorm",
    qkv: llamaTensors.qkv,
    queryNorm: "self_attn.q_layernorm",
    keyNorm: "self_attn.k_layernorm",
    output: "self_attn.dense",
    up: { kind: "plain", name: "mlp.fc1" },
    down: "mlp.fc2",
    finalNorm: "final_layernorm",
    head: "lm_head",
    leftovers: ["rotary_emb.inv_freq"],
  },
};

export const gptNeoX: Family = {
  ...llama,
  model: "gpt_neox",
  architecture: "GPTNeoXForCausalLM",
  traits: { norm: "layernorm", ffnBias: true },
  options: [
    numeric("layer_norm_eps", "epsilon", 1e-5),
    choice("hidden_act", "gelu", plainActivations),
    tying(false),
    flag("attention_bias", true, { qkvBias: true, outputBias: true }, { qkvBias: false, outputBias: false }),
    flag("use_parallel_residual", true, { parallel: 2 }, { parallel: 0 }),
  ],
  sizes: {
    ...llama.sizes,
    kvHeads: { key: "", otherwise: sameHeads },
    headDim: { key: "", otherwise: headShare },
  },
  rope: {
    theta: { key: "rotary_emb_base", otherwise: 10_000 },
    share: { key: "rotary_pct", otherwise: 0.25 },
  },
  harmless: ["rope_theta", "partial_rotary_factor"],
  tensors: {
    prefixes: ["gpt_neox.", ""],
    embedding: "embed_in",
    layer: "layers.{}.",
    norm: "input_layernorm",
    ffnNorm: "post_attention_layernorm",
    qkv: { kind: "grouped", name: "attention.query_key_value" },
    output: "attention.dense",
    up: { kind: "plain", name: "mlp.dense_h_to_4h" },
    down: "mlp.dense_4h_to_h",
    finalNorm: "final_layer_norm",
    head: "embed_out",
    leftovers: ["attention.bias", "attention.masked_bias", "rotary_emb.inv_freq"],
  },
};
