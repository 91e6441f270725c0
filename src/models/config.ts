// config.json of the Hugging Face model families that we read, as one description of a decoder. What a family can
// do and ours cannot is refused, since a model that computes almost the right thing is worse than none.

import { fail } from "../core/errors.ts";
import type { Rope, RopeScaling } from "../network/positions.ts";

export type Family = "llama" | "qwen2" | "gpt2";

export interface Decoder {
  readonly family: Family;
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly ffnDim: number;
  readonly vocabulary: number;
  /** Positions that the model was made for. */
  readonly positions: number;
  readonly epsilon: number;
  /** Undefined: learned positions. */
  readonly rope: Rope | undefined;
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
  readonly ffnBias: boolean;
  readonly activation: "swiglu" | "gelu" | "gelu-tanh" | "relu" | "silu";
  /** The head uses the embedding's matrix. */
  readonly tied: boolean;
}

export type ConfigJson = Readonly<Record<string, unknown>>;

export function readDecoder(config: ConfigJson): Decoder {
  const family = config["model_type"];
  switch (family) {
    case "llama":
    case "qwen2":
      return readLlama(config, family);
    case "gpt2":
      return readGpt2(config);
    default:
      fail(
        "unimplemented",
        `config.json is of the model type ${JSON.stringify(family)}: llama, qwen2 and gpt2 are supported`,
      );
  }
}

function readLlama(config: ConfigJson, family: "llama" | "qwen2"): Decoder {
  const dim = integer(config, "hidden_size");
  const heads = integer(config, "num_attention_heads");
  const activation = config["hidden_act"] ?? "silu";
  if (activation !== "silu") refuse("hidden_act", activation, "silu");
  if (config["use_sliding_window"] === true) refuse("use_sliding_window", true, "false");
  if (Number(config["pretraining_tp"] ?? 1) !== 1) refuse("pretraining_tp", config["pretraining_tp"], "1");
  if (dim % heads !== 0 && config["head_dim"] == null)
    fail("invalid_argument", `config.json: hidden_size ${dim} is no multiple of num_attention_heads ${heads}`);
  const attentionBias = family === "qwen2" ? true : flag(config, "attention_bias", false);
  return {
    family,
    layers: integer(config, "num_hidden_layers"),
    dim,
    heads,
    kvHeads: integer(config, "num_key_value_heads", heads),
    headDim: integer(config, "head_dim", dim / heads),
    ffnDim: integer(config, "intermediate_size"),
    vocabulary: integer(config, "vocab_size"),
    positions: integer(config, "max_position_embeddings", 2048),
    epsilon: number(config, "rms_norm_eps", 1e-6),
    rope: readRope(config),
    qkvBias: attentionBias,
    outputBias: family === "qwen2" ? false : attentionBias,
    ffnBias: flag(config, "mlp_bias", false),
    activation: "swiglu",
    tied: flag(config, "tie_word_embeddings", false),
  };
}

/** Older files have rope_theta and rope_scaling, newer ones both in rope_parameters; of two, Transformers takes the older. */
function readRope(config: ConfigJson): Rope {
  const parameters = (config["rope_scaling"] ?? config["rope_parameters"] ?? {}) as ConfigJson;
  const theta = parameters["rope_theta"] ?? config["rope_theta"] ?? 10_000;
  if (typeof theta !== "number" || !(theta >= 1)) refuse("rope_theta", theta, "a number from 1 on");
  const scaling = readScaling(parameters);
  return scaling ? { theta, scaling } : { theta };
}

function readScaling(parameters: ConfigJson): RopeScaling | undefined {
  const kind = parameters["rope_type"] ?? parameters["type"] ?? "default";
  const size = (key: string, least: number): number => {
    const value = parameters[key];
    if (typeof value === "number" && value >= least && value <= 1e6) return value;
    return refuse(`${key} of rope_scaling`, value, `a number from ${least} to 1000000`);
  };
  switch (kind) {
    case "default":
      return undefined;
    case "linear":
      return { kind: "linear", factor: size("factor", 1) };
    case "llama3":
      return {
        kind: "llama3",
        factor: size("factor", 1),
        lowFrequencyFactor: size("low_freq_factor", 0),
        highFrequencyFactor: size("high_freq_factor", 0),
        originalPositions: integer(parameters, "original_max_position_embeddings"),
      };
    default:
      return refuse("rope_scaling", kind, "default, linear or llama3");
  }
}

const gptActivations: Readonly<Record<string, Decoder["activation"]>> = {
  gelu_new: "gelu-tanh",
  gelu_pytorch_tanh: "gelu-tanh",
  gelu: "gelu",
  relu: "relu",
  silu: "silu",
};

function readGpt2(config: ConfigJson): Decoder {
  const dim = integer(config, "n_embd", 768);
  const heads = integer(config, "n_head", 12);
  const name = String(config["activation_function"] ?? "gelu_new");
  const activation =
    gptActivations[name] ?? refuse("activation_function", name, Object.keys(gptActivations).join(", "));
  if (flag(config, "scale_attn_weights", true) === false) refuse("scale_attn_weights", false, "true");
  if (flag(config, "scale_attn_by_inverse_layer_idx", false)) refuse("scale_attn_by_inverse_layer_idx", true, "false");
  if (flag(config, "add_cross_attention", false)) refuse("add_cross_attention", true, "false");
  if (dim % heads !== 0) fail("invalid_argument", `config.json: n_embd ${dim} is no multiple of n_head ${heads}`);
  return {
    family: "gpt2",
    layers: integer(config, "n_layer", 12),
    dim,
    heads,
    kvHeads: heads,
    headDim: dim / heads,
    ffnDim: integer(config, "n_inner", 4 * dim),
    vocabulary: integer(config, "vocab_size", 50_257),
    positions: integer(config, "n_positions", 1024),
    epsilon: number(config, "layer_norm_epsilon", 1e-5),
    rope: undefined,
    qkvBias: true,
    outputBias: true,
    ffnBias: true,
    activation,
    tied: flag(config, "tie_word_embeddings", true),
  };
}

function refuse(key: string, value: unknown, expected: string): never {
  fail("unimplemented", `config.json has ${key} = ${JSON.stringify(value)}: only ${expected} is supported`);
}

function integer(config: ConfigJson, key: string, otherwise?: number): number {
  const value = config[key] ?? otherwise;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1 || value > 1 << 24)
    fail(
      "invalid_argument",
      `config.json has ${key} = ${JSON.stringify(value)}, expected a whole number from 1 to ${1 << 24}`,
    );
  return value;
}

function number(config: ConfigJson, key: string, otherwise: number): number {
  const value = config[key] ?? otherwise;
  if (typeof value !== "number" || !(value >= 0 && value <= 1))
    fail("invalid_argument", `config.json has ${key} = ${JSON.stringify(value)}, expected a number from 0 to 1`);
  return value;
}

function flag(config: ConfigJson, key: string, otherwise: boolean): boolean {
  const value = config[key] ?? otherwise;
  return typeof value === "boolean"
    ? value
    : fail("invalid_argument", `config.json has ${key} = ${JSON.stringify(value)}, expected true or false`);
}
