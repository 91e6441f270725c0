// Writes t1.yaml and t2.yaml: the two production networks of the original DCNR, in its own format, every
// config value a string. Run it after a change: `node examples/generate.ts`.

import { writeFileSync } from "node:fs";

export interface Transformer {
  readonly name: string;
  readonly blocks: number;
  readonly heads: number;
  readonly headDim: number;
  readonly context: number;
  readonly vocabulary: number;
  readonly dropout: number;
}

export const t1: Transformer = {
  name: "t1",
  blocks: 6,
  heads: 8,
  headDim: 64,
  context: 128,
  vocabulary: 10_000,
  dropout: 0.1,
};
export const t2: Transformer = { ...t1, name: "t2", blocks: 8, context: 512, vocabulary: 32_768 };

type Config = Record<string, string | number | boolean>;

/** Collects the lines of a definition. */
class Writer {
  readonly #nodes: string[] = [];
  readonly #edges: string[] = [];

  node(
    id: string,
    type: string,
    config: Config,
    input: readonly number[] = [],
    output: readonly number[] = [],
  ): string {
    const entries = Object.entries(config).map(([key, value]) => `      ${key}: "${value}"`);
    const lines = [`  - id: ${id}`, `    type: ${type}`, "    config:", ...entries];
    if (input.length > 0) lines.push(`    input_shapes: [[${input.join(", ")}]]`);
    if (output.length > 0) lines.push(`    output_shapes: [[${output.join(", ")}]]`);
    this.#nodes.push(lines.join("\n"));
    return id;
  }

  edge(from: string, to: string, fromSlot = 0, toSlot = 0): void {
    const slots = `${fromSlot > 0 ? `from_slot: ${fromSlot}, ` : ""}`;
    this.#edges.push(`  - { from: ${from}, ${slots}to: ${to}${toSlot > 0 ? `, to_slot: ${toSlot}` : ""} }`);
  }

  toString(): string {
    return `nodes:\n${this.#nodes.join("\n")}\nedges:\n${this.#edges.join("\n")}\n`;
  }
}

export function transformerYaml(size: Transformer): string {
  const { blocks, heads, headDim, context, vocabulary } = size;
  const dim = heads * headDim;
  const writer = new Writer();
  const group = (name: string): Config => ({ colocate_group: name, colocate_policy: "required", optimizer: "adam" });
  const shared = group("token_embedding");
  let last = writer.node(
    "embedder",
    "embedder",
    {
      vocab_size: vocabulary,
      dim,
      seq_len: context,
      position_encoding: "none",
      shared_weight_alias: "token_embedding",
      ...shared,
    },
    [context],
    [context, dim],
  );
  for (let block = 1; block <= blocks; block++)
    last = writeBlock(writer, size, block, last, group(`transformer_block_${block}`));

  const head = group("output_head");
  const chain: [string, string, Config][] = [
    ["head_norm", "layernorm", { dim, ...head }],
    ["head_up", "linear", { in_dim: dim, out_dim: 8 * dim, ...head }],
    ["head_gate", "swiglu", head],
    ["head_down", "linear", { in_dim: 4 * dim, out_dim: dim, ...head }],
    ["lm_head", "linear", { in_dim: dim, out_dim: vocabulary, tie_weight_alias: "token_embedding", ...shared }],
    ["loss", "cost", { cost_function: "ce_logits", vocab_size: vocabulary, cost_precision: "float32" }],
  ];
  for (const [id, type, config] of chain) {
    writer.edge(last, writer.node(id, type, config));
    last = id;
  }
  return [
    `# ${size.name.toUpperCase()}: decoder-only transformer, ${blocks} blocks of ${heads} heads, context ${context}, vocabulary ${vocabulary}.`,
    "# Written by examples/generate.ts.",
    `name: ${size.name}`,
    "precision: float32",
    `${writer}outputs: [{ name: logits, node_id: lm_head, slot_id: 0 }]`,
    "costs: [{ name: ce_loss, node_id: loss, slot_id: 0 }]",
    "metrics: [{ name: head_lr, type: learning_rate, node_id: lm_head, slot_id: 0 }]",
    "",
  ].join("\n");
}

function writeBlock(writer: Writer, size: Transformer, block: number, input: string, group: Config): string {
  const { heads, headDim, context } = size;
  const dim = heads * headDim;
  const id = (name: string) => `block_${block}_${name}`;
  const add = (name: string, type: string, config: Config = {}) => writer.node(id(name), type, { ...config, ...group });
  const chain = (...ids: string[]) => {
    for (const [i, to] of ids.slice(1).entries()) writer.edge(ids[i]!, to);
  };

  writer.edge(input, add("attention_fanout", "broadcast", { num_outputs: 2 }));
  add("attention_norm", "layernorm", { dim });
  add("heads_fanout", "broadcast", { num_outputs: heads });
  chain(id("attention_fanout"), id("attention_norm"), id("heads_fanout"));
  for (let head = 0; head < heads; head++) {
    const config = { head_dim: headDim, input_dim: dim, seq_len: context, causal: true };
    add(`head_${head}`, "attention_head", { ...config, position_encoding: "rope", rope_theta: "10000" });
    writer.edge(id("heads_fanout"), id(`head_${head}`), head);
  }
  add("heads", "stack", { axis: 1 });
  for (let head = 0; head < heads; head++) writer.edge(id(`head_${head}`), id("heads"), 0, head);
  add("attention_output", "linear", { in_dim: dim, out_dim: dim });
  add("attention_dropout", "dropout", { rate: size.dropout });
  add("attention_residual", "add");
  chain(id("heads"), id("attention_output"), id("attention_dropout"), id("attention_residual"));
  writer.edge(id("attention_fanout"), id("attention_residual"), 1, 1);

  add("ffn_fanout", "broadcast", { num_outputs: 2 });
  add("ffn_norm", "layernorm", { dim });
  add("ffn_up", "linear", { in_dim: dim, out_dim: 4 * dim });
  add("ffn_gelu", "gelu");
  add("ffn_down", "linear", { in_dim: 4 * dim, out_dim: dim });
  add("ffn_dropout", "dropout", { rate: size.dropout });
  const residual = add("ffn_residual", "add");
  chain(id("attention_residual"), id("ffn_fanout"), id("ffn_norm"), id("ffn_up"), id("ffn_gelu"), id("ffn_down"));
  chain(id("ffn_down"), id("ffn_dropout"), residual);
  writer.edge(id("ffn_fanout"), residual, 1, 1);
  return residual;
}

if (import.meta.main)
  for (const size of [t1, t2]) writeFileSync(new URL(`./${size.name}.yaml`, import.meta.url), transformerYaml(size));
