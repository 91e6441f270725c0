// Llama and those that differ from it in a few traits: normed before, gated, rotated, attention and feed-forward in turn.

import { plainRope } from "./rope.ts";
import { type Family, numeric, type TensorNames } from "./row.ts";
import {
  attentionBiases,
  ffnBiases,
  gatedBy,
  headShare,
  rmsEpsilon,
  sameHeads,
  tying,
  withOptions,
  without,
} from "./shared.ts";

export const llamaTensors: TensorNames = {
  prefixes: ["model.", ""],
  embedding: "embed_tokens",
  layer: "layers.{}.",
  norm: "input_layernorm",
  ffnNorm: "post_attention_layernorm",
  qkv: { kind: "apart", names: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"] },
  output: "self_attn.o_proj",
  up: { kind: "gated", up: "mlp.up_proj", gate: "mlp.gate_proj" },
  down: "mlp.down_proj",
  finalNorm: "norm",
  head: "lm_head",
  leftovers: ["rotary_emb.inv_freq"],
};

export const llama: Family = {
  model: "llama",
  architecture: "LlamaForCausalLM",
  sizes: {
    layers: { key: "num_hidden_layers" },
    dim: { key: "hidden_size" },
    heads: { key: "num_attention_heads" },
    kvHeads: { key: "num_key_value_heads", otherwise: sameHeads },
    headDim: { key: "head_dim", otherwise: headShare },
    ffnDim: { key: "intermediate_size" },
    vocabulary: { key: "vocab_size" },
    positions: { key: "max_position_embeddings", otherwise: 2048 },
  },
  traits: { norm: "rmsnorm" },
  options: [rmsEpsilon(1e-6), gatedBy("hidden_act", "silu"), tying(false), attentionBiases, ffnBiases],
  demands: { pretraining_tp: [1], add_cross_attention: [false], is_encoder_decoder: [false] },
  harmless: ["rope_interleaved"],
  rope: plainRope,
  tensors: llamaTensors,
};

/** Layers from max_window_layers on, if windows are used at all. */
export const qwenWindows: NonNullable<Family["windows"]> = {
  key: "sliding_window",
  otherwise: 4096,
  flag: "use_sliding_window",
  layer: (layer, config) => layer >= config.number("max_window_layers", 0, 1 << 24, 28),
};

export const qwen2: Family = {
  ...llama,
  model: "qwen2",
  architecture: "Qwen2ForCausalLM",
  traits: { norm: "rmsnorm", qkvBias: true },
  options: without(llama.options, "attention_bias", "mlp_bias"),
  sizes: { ...llama.sizes, positions: { key: "max_position_embeddings", otherwise: 32_768 } },
  windows: qwenWindows,
  harmless: ["max_window_layers"],
};

export const qwen3: Family = {
  ...llama,
  model: "qwen3",
  architecture: "Qwen3ForCausalLM",
  traits: { norm: "rmsnorm", qkNorm: "head" },
  options: without(llama.options, "mlp_bias"),
  sizes: {
    ...llama.sizes,
    headDim: { key: "head_dim", otherwise: 128 },
    positions: { key: "max_position_embeddings", otherwise: 32_768 },
  },
  windows: qwenWindows,
  harmless: ["max_window_layers"],
  tensors: { ...llamaTensors, queryNorm: "self_attn.q_norm", keyNorm: "self_attn.k_norm" },
};

export const mistral: Family = {
  ...llama,
  model: "mistral",
  architecture: "MistralForCausalLM",
  options: without(llama.options, "attention_bias", "mlp_bias"),
  sizes: { ...llama.sizes, positions: { key: "max_position_embeddings", otherwise: 131_072 } },
  windows: { key: "sliding_window", otherwise: 4096 },
};

export const mixtral: Family = {
  ...mistral,
  model: "mixtral",
  architecture: "MixtralForCausalLM",
  options: withOptions(
    mistral.options,
    rmsEpsilon(1e-5),
    numeric("num_local_experts", "experts", 8),
    numeric("num_experts_per_tok", "expertsPerToken", 2),
  ),
  harmless: ["output_router_logits", "router_aux_loss_coef", "router_jitter_noise"],
  rope: { ...plainRope, theta: { key: "rope_theta", otherwise: 1e6 } },
  windows: { key: "sliding_window" },
  tensors: {
    ...llamaTensors,
    experts: {
      router: "block_sparse_moe.gate",
      gate: "block_sparse_moe.experts.{}.w1",
      up: "block_sparse_moe.experts.{}.w3",
      down: "block_sparse_moe.experts.{}.w2",
    },
  },
};

export const smollm3: Family = {
  ...llama,
  model: "smollm3",
  architecture: "SmolLM3ForCausalLM",
  options: withOptions(llama.options, tying(true)),
  sizes: { ...llama.sizes, positions: { key: "max_position_embeddings", otherwise: 32_768 } },
  rope: { ...plainRope, theta: { key: "rope_theta", otherwise: 2e6 } },
  rotated: (layer, config, layers) => {
    const isBit = (item: unknown): item is number => item === 0 || item === 1;
    const interval = config.integer("no_rope_layer_interval", 4);
    const listed = config.list("no_rope_layers", layers, isBit, "0 or 1");
    return listed === undefined ? (layer + 1) % interval !== 0 : listed[layer] === 1;
  },
  windows: {
    key: "sliding_window",
    flag: "use_sliding_window",
    layer: (layer, config) => !(smollm3.rotated?.(layer, config, config.integer("num_hidden_layers")) ?? true),
  },
  harmless: ["no_rope_layer_interval", "max_window_layers"],
  write: ({ each }) => ({ no_rope_layers: each.map(({ rope }) => (rope === undefined ? 0 : 1)) }),
};

export const olmo2: Family = {
  ...llama,
  model: "olmo2",
  architecture: "Olmo2ForCausalLM",
  traits: { norm: "rmsnorm", place: "post", qkNorm: "flat" },
  options: withOptions(without(llama.options, "mlp_bias"), rmsEpsilon(1e-5)),
  tensors: {
    prefixes: llamaTensors.prefixes,
    embedding: "embed_tokens",
    layer: "layers.{}.",
    postNorm: "post_attention_layernorm",
    ffnPostNorm: "post_feedforward_layernorm",
    qkv: llamaTensors.qkv,
    queryNorm: "self_attn.q_norm",
    keyNorm: "self_attn.k_norm",
    output: llamaTensors.output,
    up: llamaTensors.up,
    down: llamaTensors.down,
    finalNorm: "norm",
    head: "lm_head",
  },
};

export const granite: Family = {
  ...llama,
  model: "granite",
  architecture: "GraniteForCausalLM",
  options: [
    ...llama.options,
    numeric("embedding_multiplier", "embeddingScale", 1),
    numeric("residual_multiplier", "residualScale", 1),
    numeric("attention_multiplier", "scoreScale", 1),
    numeric("logits_scaling", "logitScale", 1, "reciprocal"),
  ],
};

export const phi3: Family = {
  ...llama,
  model: "phi3",
  architecture: "Phi3ForCausalLM",
  options: withOptions(without(llama.options, "attention_bias", "mlp_bias"), rmsEpsilon(1e-5)),
  demands: { ...llama.demands, attention_bias: [false] },
  sizes: { ...llama.sizes, positions: { key: "max_position_embeddings", otherwise: 4096 } },
  windows: { key: "sliding_window" },
  // For contexts without LongRoPE it says nothing.
  harmless: ["auto_map", "original_max_position_embeddings", "full_attn_mod", "embd_layer", "ffn_layer"],
  tensors: {
    ...llamaTensors,
    qkv: { kind: "stacked", name: "self_attn.qkv_proj" },
    up: { kind: "gate-first", name: "mlp.gate_up_proj" },
  },
};
