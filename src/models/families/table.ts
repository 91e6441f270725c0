// The table of families: one row each, written by difference where families are alike. It drives import and export; a
// property that is not here does not exist for either, and a config that asks for it is refused.

import { fail } from "../../core/errors.ts";
import type { Decoder, Sizes } from "../decoder.ts";
import { plainRope } from "./rope.ts";
import {
  choice,
  type Family,
  flag,
  gatedActivations,
  numeric,
  type Option,
  plainActivations,
  type TensorNames,
} from "./row.ts";

const headShare = ({ dim = 0, heads = 1 }: Partial<Sizes>) => dim / heads;
const sameHeads = ({ heads = 1 }: Partial<Sizes>) => heads;
const fourfold = ({ dim = 0 }: Partial<Sizes>) => 4 * dim;

const llamaTensors: TensorNames = {
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

const tying = (otherwise: boolean) => flag("tie_word_embeddings", otherwise, { tied: true }, { tied: false });
const attentionBiases = flag(
  "attention_bias",
  false,
  { qkvBias: true, outputBias: true },
  { qkvBias: false, outputBias: false },
);
const ffnBiases = flag("mlp_bias", false, { ffnBias: true }, { ffnBias: false });
const rmsEpsilon = (otherwise: number) => numeric("rms_norm_eps", "epsilon", otherwise);
const gatedBy = (key: string, otherwise: string): Option => choice(key, otherwise, gatedActivations);

const llama: Family = {
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

/** Llama's options with others in place of those that have the same key. */
function withOptions(base: readonly Option[], ...changes: readonly Option[]): Option[] {
  const keys = new Set(changes.map(({ key }) => key));
  return [...base.filter(({ key }) => !keys.has(key)), ...changes];
}

const without = (base: readonly Option[], ...keys: string[]) => base.filter(({ key }) => !keys.includes(key));

/** Layers from max_window_layers on, if windows are used at all. */
const qwenWindows: NonNullable<Family["windows"]> = {
  key: "sliding_window",
  otherwise: 4096,
  flag: "use_sliding_window",
  layer: (layer, config) => layer >= config.number("max_window_layers", 0, 1 << 24, 28),
};

const qwen2: Family = {
  ...llama,
  model: "qwen2",
  architecture: "Qwen2ForCausalLM",
  traits: { norm: "rmsnorm", qkvBias: true },
  options: without(llama.options, "attention_bias", "mlp_bias"),
  sizes: { ...llama.sizes, positions: { key: "max_position_embeddings", otherwise: 32_768 } },
  windows: qwenWindows,
  harmless: ["max_window_layers"],
};

const qwen3: Family = {
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

const mistral: Family = {
  ...llama,
  model: "mistral",
  architecture: "MistralForCausalLM",
  options: without(llama.options, "attention_bias", "mlp_bias"),
  sizes: { ...llama.sizes, positions: { key: "max_position_embeddings", otherwise: 131_072 } },
  windows: { key: "sliding_window", otherwise: 4096 },
};

const mixtral: Family = {
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

const gemma: Family = {
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

const gemma2: Family = {
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

const gemma3: Family = {
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
const gemma3WithVision: Family = {
  ...gemma3,
  model: "gemma3",
  inside: "text_config",
  tensors: {
    ...gemma3.tensors,
    others: ["vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."],
  },
};

const smollm3: Family = {
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

const olmo2: Family = {
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

const granite: Family = {
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

const phi3: Family = {
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

const phi: Family = {
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

const gptNeoX: Family = {
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

const gpt2: Family = {
  model: "gpt2",
  architecture: "GPT2LMHeadModel",
  sizes: {
    layers: { key: "n_layer", otherwise: 12 },
    dim: { key: "n_embd", otherwise: 768 },
    heads: { key: "n_head", otherwise: 12 },
    kvHeads: { key: "", otherwise: sameHeads },
    headDim: { key: "", otherwise: headShare },
    ffnDim: { key: "n_inner", otherwise: fourfold },
    vocabulary: { key: "vocab_size", otherwise: 50_257 },
    positions: { key: "n_positions", otherwise: 1024 },
  },
  traits: { norm: "layernorm", learnedPositions: true, qkvBias: true, outputBias: true, ffnBias: true },
  options: [
    numeric("layer_norm_epsilon", "epsilon", 1e-5),
    choice("activation_function", "gelu_new", plainActivations),
    tying(true),
  ],
  demands: {
    scale_attn_weights: [true],
    scale_attn_by_inverse_layer_idx: [false],
    add_cross_attention: [false],
    is_encoder_decoder: [false],
  },
  harmless: [
    ..."n_ctx reorder_and_upcast_attn summary_type summary_use_proj summary_activation".split(" "),
    ..."summary_proj_to_labels summary_first_dropout".split(" "),
  ],
  tensors: {
    prefixes: ["transformer.", ""],
    embedding: "wte",
    positions: "wpe",
    layer: "h.{}.",
    norm: "ln_1",
    ffnNorm: "ln_2",
    qkv: { kind: "stacked", name: "attn.c_attn" },
    output: "attn.c_proj",
    up: { kind: "plain", name: "mlp.c_fc" },
    down: "mlp.c_proj",
    finalNorm: "ln_f",
    head: "lm_head",
    turned: true,
    leftovers: ["attn.bias", "attn.masked_bias"],
  },
};

const opt: Family = {
  ...gpt2,
  model: "opt",
  architecture: "OPTForCausalLM",
  sizes: {
    layers: { key: "num_hidden_layers", otherwise: 12 },
    dim: { key: "hidden_size", otherwise: 768 },
    heads: { key: "num_attention_heads", otherwise: 12 },
    kvHeads: { key: "", otherwise: sameHeads },
    headDim: { key: "", otherwise: headShare },
    ffnDim: { key: "ffn_dim", otherwise: 3072 },
    vocabulary: { key: "vocab_size", otherwise: 50_272 },
    positions: { key: "max_position_embeddings", otherwise: 2048 },
  },
  traits: { norm: "layernorm", epsilon: 1e-5, learnedPositions: true },
  options: [
    choice("activation_function", "relu", plainActivations),
    tying(true),
    flag(
      "enable_bias",
      true,
      { qkvBias: true, outputBias: true, ffnBias: true },
      { qkvBias: false, outputBias: false, ffnBias: false },
    ),
    flag("do_layer_norm_before", true, { place: "pre", finalNorm: true }, { place: "after", finalNorm: false }),
  ],
  demands: { layer_norm_elementwise_affine: [true], _remove_final_layer_norm: [false], is_encoder_decoder: [false] },
  harmless: ["init_std", "output_projection"],
  derive: (config, { dim }) => {
    const width = config.integer("word_embed_proj_dim", dim);
    return { embeddingDim: width === dim ? undefined : width };
  },
  write: ({ embeddingDim, dim }) => ({ word_embed_proj_dim: embeddingDim ?? dim }),
  tensors: {
    prefixes: ["model.decoder.", "decoder."],
    embedding: "embed_tokens",
    positions: "embed_positions",
    positionsSkipped: 2,
    projectIn: "project_in",
    projectOut: "project_out",
    layer: "layers.{}.",
    norm: "self_attn_layer_norm",
    ffnNorm: "final_layer_norm",
    qkv: llamaTensors.qkv,
    output: "self_attn.out_proj",
    up: { kind: "plain", name: "fc1" },
    down: "fc2",
    finalNorm: "final_layer_norm",
    head: "lm_head",
  },
};

const bloom: Family = {
  ...gpt2,
  model: "bloom",
  architecture: "BloomForCausalLM",
  sizes: {
    layers: { key: "n_layer", also: ["num_hidden_layers"], otherwise: 2 },
    dim: { key: "hidden_size", also: ["n_embed"], otherwise: 64 },
    heads: { key: "n_head", also: ["num_attention_heads"], otherwise: 8 },
    kvHeads: { key: "", otherwise: sameHeads },
    headDim: { key: "", otherwise: headShare },
    ffnDim: { key: "", otherwise: fourfold },
    vocabulary: { key: "vocab_size", otherwise: 250_880 },
    // It has no bound of its own; this is what it was trained with.
    positions: { key: "seq_length", otherwise: 2048 },
  },
  traits: {
    norm: "layernorm",
    embeddingNorm: true,
    qkvBias: true,
    outputBias: true,
    ffnBias: true,
    activation: "gelu-tanh",
    alibi: { scale: 1, bfloat16: false },
  },
  options: [numeric("layer_norm_epsilon", "epsilon", 1e-5), tying(true)],
  demands: {
    apply_residual_connection_post_layernorm: [false],
    is_encoder_decoder: [false],
    n_inner: [],
  },
  // How the sums of one machine are cut and fused.
  harmless: [
    "pretraining_tp",
    "slow_but_exact",
    "offset_alibi",
    "masked_softmax_fusion",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "unk_token_id",
  ],
  tensors: {
    prefixes: ["transformer.", ""],
    embedding: "word_embeddings",
    embeddingNorm: "word_embeddings_layernorm",
    layer: "h.{}.",
    norm: "input_layernorm",
    ffnNorm: "post_attention_layernorm",
    qkv: { kind: "grouped", name: "self_attention.query_key_value" },
    output: "self_attention.dense",
    up: { kind: "plain", name: "mlp.dense_h_to_4h" },
    down: "mlp.dense_4h_to_h",
    finalNorm: "ln_f",
    head: "lm_head",
  },
};

const falcon: Family = {
  ...bloom,
  model: "falcon",
  architecture: "FalconForCausalLM",
  sizes: {
    layers: { key: "num_hidden_layers", also: ["n_layer"], otherwise: 32 },
    dim: { key: "hidden_size", also: ["n_embed"], otherwise: 4544 },
    heads: { key: "num_attention_heads", also: ["n_head"], otherwise: 71 },
    kvHeads: { key: "num_kv_heads", otherwise: sameHeads },
    headDim: { key: "", otherwise: headShare },
    ffnDim: { key: "ffn_hidden_size", otherwise: fourfold },
    vocabulary: { key: "vocab_size", otherwise: 65_024 },
    positions: { key: "max_position_embeddings", otherwise: 2048 },
  },
  traits: { norm: "layernorm" },
  options: [
    numeric("layer_norm_epsilon", "epsilon", 1e-5),
    choice("activation", "gelu", plainActivations),
    tying(true),
    flag(
      "bias",
      false,
      { qkvBias: true, outputBias: true, ffnBias: true },
      { qkvBias: false, outputBias: false, ffnBias: false },
    ),
  ],
  demands: { is_encoder_decoder: [false], apply_residual_connection_post_layernorm: [false] },
  // Of rotation it says something even where it does not rotate.
  harmless: ["auto_map", "rope_theta", "rope_scaling", "rope_parameters"],
  rope: plainRope,
  derive: (config, { heads, kvHeads, headDim }): Partial<Decoder> => {
    const grouped = config.flag("new_decoder_architecture", false);
    const oneKey = config.flag("multi_query", true);
    const parallel = config.flag("parallel_attn", true);
    const norms = config.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
    if (norms > 2 || (norms === 2 && !grouped) || (grouped && !parallel))
      fail(
        "unimplemented",
        `config.json has num_ln_in_parallel_attn = ${norms} and parallel_attn = ${parallel}, which no Falcon has`,
      );
    if (!grouped && !oneKey && kvHeads !== heads)
      config.refuse("num_kv_heads", kvHeads, `as many as heads (${heads}), or new_decoder_architecture,`);
    return {
      kvHeads: grouped || !oneKey ? kvHeads : 1,
      parallel: parallel ? (norms === 2 ? 2 : 1) : 0,
      // Its distances are scaled with the scores.
      alibi: config.flag("alibi", false) ? { scale: 1 / Math.sqrt(headDim), bfloat16: true } : undefined,
    };
  },
  write: ({ parallel, kvHeads, heads, alibi }) => ({
    new_decoder_architecture: parallel !== 0,
    ...(parallel === 0 && kvHeads === heads ? { multi_query: false } : {}),
    parallel_attn: parallel !== 0,
    ...(parallel === 0 ? {} : { num_ln_in_parallel_attn: parallel }),
    num_kv_heads: kvHeads,
    alibi: alibi !== undefined,
  }),
  tensors: {
    ...bloom.tensors,
    embedding: "word_embeddings",
    parallelNorms: ["ln_attn", "ln_mlp"],
    leftovers: ["rotary_emb.inv_freq"],
  },
};

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
