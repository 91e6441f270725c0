// What GGUF calls things, in the words of Hugging Face's files: a config for the table of families, and the names under
// which each stored tensor is known. Only architectures that a fixture compares with Transformers are here.

import { fail } from "../../core/errors.ts";
import { entryOf } from "../../core/words/table.ts";
import type { ConfigJson } from "../families/config-reader.ts";
import type { GgufFile, GgufValue } from "./file.ts";

export interface Architecture {
  readonly model: string;
  /** Queries and keys of a head are stored with their two halves interleaved. */
  readonly interleaved?: boolean;
  /** Scales of norms are stored as they are used. */
  readonly wholeNorms?: boolean;
  /** Keys beside the common ones, without the architecture in front. */
  readonly more: (read: MetadataReader) => Record<string, unknown>;
  /** Our tensor names where they differ from the common ones. */
  readonly names?: Readonly<Record<string, string>>;
}

export const architectures: Readonly<Record<string, Architecture>> = {
  llama: { model: "llama", interleaved: true, more: () => ({}) },
  qwen2: { model: "qwen2", more: () => ({}) },
  qwen3: { model: "qwen3", more: () => ({}) },
  gemma2: {
    model: "gemma2",
    wholeNorms: true,
    more: (read) => {
      const [layers, dim, heads] = [
        read.number("block_count"),
        read.number("embedding_length"),
        read.number("attention.head_count"),
      ];
      return {
        sliding_window: read.number("attention.sliding_window", 4096),
        attn_logit_softcapping: read.number("attn_logit_softcapping", 50),
        final_logit_softcapping: read.number("final_logit_softcapping", 30),
        // The file does not say it; the largest of the three models is the exception.
        query_pre_attn_scalar: layers === 46 ? dim / heads : read.number("attention.key_length", dim / heads),
      };
    },
    names: {
      post_attention_layernorm: "post_attention_norm",
      pre_feedforward_layernorm: "ffn_norm",
      post_feedforward_layernorm: "post_ffw_norm",
    },
  },
  phi3: {
    model: "phi3",
    more: (read) => ({ sliding_window: read.number("attention.sliding_window", 0) || null }),
    names: { "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up" },
  },
};

/** Names of a layer's tensors, theirs behind ours. */
const layerNames: Readonly<Record<string, string>> = {
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

const otherNames: Readonly<Record<string, string>> = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
};

/** Our name of a stored tensor; one that has none keeps its own, so that it is refused by it. */
export function nameIn({ names = {} }: Architecture, stored: string): string {
  const [, base = "", part = ""] = /^(.*)\.(weight|bias)$/.exec(stored) ?? [];
  const layer = /^blk\.(\d+)\.(\w+)$/.exec(base);
  const all = { ...layerNames, ...names };
  const taken = new Set(Object.values(names));
  const found = layer
    ? Object.entries(all).find(([ours, theirs]) => theirs === layer[2] && (ours in names || !taken.has(theirs)))
    : undefined;
  if (found && layer) return `model.layers.${layer[1]}.${found[0]}.${part}`;
  const other = entryOf(otherNames, base);
  return other === undefined ? stored : `${other}.${part}`;
}

/** Reads an architecture's keys and remembers which: the others are refused by name. */
export class MetadataReader {
  readonly #metadata: GgufFile["metadata"];
  readonly #architecture: string;
  readonly #read = new Set<string>();

  constructor(metadata: GgufFile["metadata"], architecture: string) {
    this.#metadata = metadata;
    this.#architecture = architecture;
  }

  value(key: string): GgufValue | undefined {
    this.#read.add(`${this.#architecture}.${key}`);
    return this.#metadata.get(`${this.#architecture}.${key}`);
  }

  number(key: string, otherwise?: number): number {
    const value = this.value(key) ?? otherwise;
    if (typeof value !== "number" || !Number.isFinite(value))
      fail(
        "invalid_argument",
        `the GGUF file has ${this.#architecture}.${key} = ${String(value).slice(0, 80)}, expected a number`,
      );
    return value;
  }

  refuseUnread(): void {
    for (const key of this.#metadata.keys())
      if (!/^(general|tokenizer|quantize|split)\./.test(key) && !this.#read.has(key))
        fail(
          "unimplemented",
          `the GGUF file has the key "${key.slice(0, 80)}", which is not known: it might change what the model computes`,
        );
  }
}

export function configFrom(
  file: GgufFile,
  name: string,
  architecture: Architecture,
  ropeFactors: readonly number[] | undefined,
): ConfigJson {
  const read = new MetadataReader(file.metadata, name);
  const embedding =
    file.tensors.get("token_embd.weight") ?? fail("invalid_argument", "the GGUF file has no token_embd.weight");
  const [dim, heads] = [read.number("embedding_length"), read.number("attention.head_count")];
  const headDim = read.number("attention.key_length", dim / heads);
  if (read.number("attention.value_length", headDim) !== headDim)
    fail("unimplemented", "the GGUF file's values have another width than its keys, which is not supported");
  if (read.number("expert_count", 0) !== 0)
    fail("unimplemented", "GGUF files of models with experts are not supported");
  const turned = read.number("rope.dimension_count", headDim);
  read.value("vocab_size");
  const config: Record<string, unknown> = {
    model_type: architecture.model,
    vocab_size: embedding.shape[0],
    hidden_size: dim,
    num_hidden_layers: read.number("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: read.number("attention.head_count_kv", heads),
    head_dim: headDim,
    intermediate_size: read.number("feed_forward_length"),
    max_position_embeddings: read.number("context_length"),
    rms_norm_eps: read.number("attention.layer_norm_rms_epsilon", 1e-6),
    rope_theta: read.number("rope.freq_base", 10_000),
    tie_word_embeddings: !file.tensors.has("output.weight"),
    ...(turned !== headDim && { partial_rotary_factor: turned / headDim }),
    ...scalingFrom(read, ropeFactors),
    ...architecture.more(read),
  };
  read.refuseUnread();
  return config;
}

function scalingFrom(read: MetadataReader, factors: readonly number[] | undefined): Record<string, unknown> {
  const kind = read.value("rope.scaling.type");
  const factor = read.number("rope.scaling.factor", 1);
  const original = read.value("rope.scaling.original_context_length");
  read.value("rope.scaling.finetuned");
  if (factors !== undefined)
    return {
      rope_scaling: { rope_type: "longrope", short_factor: factors, long_factor: factors, attention_factor: 1 },
    };
  if (kind === undefined || kind === "none") return {};
  const shared = {
    rope_type: kind,
    factor,
    ...(original !== undefined && { original_max_position_embeddings: original }),
  };
  return { rope_scaling: kind === "linear" ? { rope_type: kind, factor } : shared };
}
