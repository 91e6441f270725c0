// A model as people have them, so small that it is written in place: one layer, the vocabulary of a fixture, a chat template.

import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const vocabularyFile = "src/data/bpe/fixtures/qwen2.json";
export const tinyVocabulary = 704;
const size = { vocabulary: tinyVocabulary, dim: 8, ffn: 8 };
interface Taught {
  readonly template: string;
  readonly endTokens: readonly number[];
  /** By the number of the weight; 0 if absent. */
  readonly weight?: (index: number) => number;
}

export function writeTinyModel(folder: string, { template, endTokens, weight = () => 0 }: Taught): void {
  mkdirSync(folder);
  cpSync(vocabularyFile, join(folder, "tokenizer.json"));
  const json = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  json("config.json", {
    model_type: "llama",
    hidden_size: size.dim,
    intermediate_size: size.ffn,
    num_hidden_layers: 1,
    num_attention_heads: 1,
    vocab_size: size.vocabulary,
    max_position_embeddings: 512,
    eos_token_id: 5,
    rope_theta: 10_000,
    rope_scaling: { rope_type: "linear", factor: 2 },
  });
  json("tokenizer_config.json", { chat_template: template, bos_token: { content: "<|endoftext|>" } });
  json("generation_config.json", { eos_token_id: endTokens });
  const { dim, ffn, vocabulary } = size;
  const layer = "model.layers.0";
  const square = ["q", "k", "v", "o"].map((one) => [`${layer}.self_attn.${one}_proj.weight`, [dim, dim]]);
  const shapes: [string, number[]][] = [
    ["model.embed_tokens.weight", [vocabulary, dim]],
    ...(square as [string, number[]][]),
    [`${layer}.mlp.up_proj.weight`, [ffn, dim]],
    [`${layer}.mlp.gate_proj.weight`, [ffn, dim]],
    [`${layer}.mlp.down_proj.weight`, [dim, ffn]],
    [`${layer}.input_layernorm.weight`, [dim]],
    [`${layer}.post_attention_layernorm.weight`, [dim]],
    ["model.norm.weight", [dim]],
    ["lm_head.weight", [vocabulary, dim]],
  ];
  let end = 0;
  const header = Object.fromEntries(
    shapes.map(([name, shape]) => {
      const start = end;
      end += 4 * shape.reduce((product, one) => product * one, 1);
      return [name, { dtype: "F32", shape, data_offsets: [start, end] }];
    }),
  );
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.byteLength));
  const weights = Float32Array.from({ length: end / 4 }, (_, index) => weight(index));
  writeFileSync(join(folder, "model.safetensors"), Buffer.concat([length, text, Buffer.from(weights.buffer)]));
}
