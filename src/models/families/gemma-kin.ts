// Gemma: norms that count from one, scaled embeddings, windows and soft caps as it grew.

import { llama, llamaTensors } from "./llama-kin.ts";
import { plainRope } from "./rope.ts";
import { choice, type Family, numeric } from "./row.ts";
import { attentionBiases, gatedBy, rmsEpsilon, tying, withOptions } from "./shared.ts";

export const gemma: Family = {
  ...llama,
  model: "gemma",
  architecture: "GemmaForCausalLM",
  sizes: {
    ...llama.sizes,
    headDim: { key: "head_dim", otherwise: 256 },
    positions: { key: "max_position_embeddings", otherwise: 8192 },
  },
  options: [
    rmsEpsilon(1e-6),
    // Its releases say "gelu" and mean the approximation.
    choice("hidden_act", "gelu_pytorch_tanh", [
      ["gelu_pytorch_tanh", { activation: "geglu-tanh" }],
      ["gelu", { activation: "geglu-tanh" }],
    ]),
    tying(true),
    attentionBiases,
  ],
  demands: {
    ...llama.demands,
    hidden_activation: ["gelu_pytorch_tanh"],
    use_bidirectional_attention: [false],
  },
  derive: (_config, { dim }) => ({ embeddingScale: Math.sqrt(dim) }),
  tensors: { ...llamaTensors, normsLessOne: true },
};

export const gemma2: Family = {
  ...gemma,
  model: "gemma2",
  architecture: "Gemma2ForCausalLM",
  traits: { norm: "rmsnorm", place: "both" },
  options: [
    rmsEpsilon(1e-6),
    gatedBy("hidden_activation", "gelu_pytorch_tanh"),
    tying(true),
    attentionBiases,
    numeric("query_pre_attn_scalar", "scoreScale", 256, "inverse-root"),
    numeric("attn_logit_softcapping", "scoreCap", 50),
    numeric("final_logit_softcapping", "logitCap", 30),
  ],
  demands: { ...llama.demands, hidden_act: ["gelu_pytorch_tanh"], use_bidirectional_attention: [false] },
  windows: { key: "sliding_window", otherwise: 4096, layer: (layer) => layer % 2 === 0 },
  tensors: {
    ...gemma.tensors,
    postNorm: "post_attention_layernorm",
    ffnNorm: "pre_feedforward_layernorm",
    ffnPostNorm: "post_feedforward_layernorm",
  },
};

export const gemma3: Family = {
  ...gemma2,
  model: "gemma3_text",
  architecture: "Gemma3ForCausalLM",
  traits: { norm: "rmsnorm", place: "both", qkNorm: "head" },
  options: withOptions(
    gemma2.options,
    numeric("attn_logit_softcapping", "scoreCap"),
    numeric("final_logit_softcapping", "logitCap"),
  ),
  sizes: { ...gemma2.sizes, positions: { key: "max_position_embeddings", otherwise: 131_072 } },
  rope: { ...plainRope, theta: { key: "rope_theta", otherwise: 1e6 } },
  localRope: { key: "rope_local_base_freq", otherwise: 10_000 },
  windows: {
    key: "sliding_window",
    otherwise: 4096,
    layer: (layer, config) => (layer + 1) % config.integer("sliding_window_pattern", 6) !== 0,
  },
  harmless: ["sliding_window_pattern", "_sliding_window_pattern"],
  tensors: {
    ...gemma2.tensors,
    prefixes: ["model.", "language_model.model.", "model.language_model.", ""],
    queryNorm: "self_attn.q_norm",
    keyNorm: "self_attn.k_norm",
  },
};

/** Gemma 3 with eyes: its text part. */
export const gemma3WithVision: Family = {
  ...gemma3,
  model: "gemma3",
  inside: "text_config",
  tensors: {
    ...gemma3.tensors,
    others: ["vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."],
  },
};
