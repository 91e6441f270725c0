// GPT-2 and those with layer norms and plain feed-forward as it has: OPT, Bloom, Falcon.

import { fail } from "../../core/errors.ts";
import type { Decoder } from "../decoder.ts";
import { llamaTensors } from "./llama-kin.ts";
import { plainRope } from "./rope.ts";
import { choice, type Family, flag, numeric, plainActivations } from "./row.ts";
import { fourfold, headShare, sameHeads, tying } from "./shared.ts";

export const gpt2: Family = {
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

export const opt: Family = {
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

export const bloom: Family = {
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

export const falcon: Family = {
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
