// A decoder as a network definition: the YAML that anyone could have written, one VNode for each block.

import { parseId } from "../core/ids.ts";
import type { Rope } from "../network/positions.ts";
import type { Decoder } from "./config.ts";

/** `context`: tokens of a sample; prompts and answers must fit. */
export function definitionOf(decoder: Decoder, name: string, context: number): string {
  const lines = new DefinitionLines();
  const { layers, dim, vocabulary, tied, rope } = decoder;
  lines.node("embedder", "embedder", {
    vocab_size: vocabulary,
    dim,
    seq_len: context,
    ...(rope === undefined ? { position_encoding: "learned" } : {}),
    ...(tied ? { shared_weight_alias: "tokens" } : {}),
  });
  let last = "embedder";
  for (let block = 1; block <= layers; block++) last = addBlock(lines, decoder, block, last);
  const head = { colocate_group: "head" };
  lines.node("head_norm", ...normOf(decoder), head);
  lines.node("lm_head", "linear", tied ? { tie_weight_alias: "tokens" } : { out_dim: vocabulary, bias: false }, head);
  lines.node("loss", "cost", { cost_function: "ce_logits" }, head);
  lines.edge(last, "head_norm");
  lines.edge("head_norm", "lm_head");
  lines.edge("lm_head", "loss");
  return `name: ${JSON.stringify(parseId(name, "the model's name"))}
nodes:
${lines.nodes.join("\n")}
edges:
${lines.edges.join("\n")}
outputs: [{ name: logits, node_id: lm_head }]
costs: [{ name: loss, node_id: loss }]
`;
}

/** A pre-norm block: attention, then the feed-forward part, each beside a residual connection. Gives its last node. */
function addBlock(lines: DefinitionLines, decoder: Decoder, block: number, before: string): string {
  const group = { colocate_group: `block_${block}` };
  const id = (name: string) => `${name}_${block}`;
  const { dim, heads, kvHeads, headDim, rope, qkvBias, outputBias, activation, ffnDim, ffnBias } = decoder;
  lines.node(id("fork"), "broadcast", {}, group);
  lines.node(id("norm"), ...normOf(decoder), group);
  lines.node(
    id("attention"),
    "attention",
    {
      num_heads: heads,
      num_kv_heads: kvHeads,
      head_dim: headDim,
      ...ropeConfig(rope),
      qkv_bias: qkvBias,
      output_bias: outputBias,
    },
    group,
  );
  lines.node(id("join"), "add", {}, group);
  lines.node(id("ffn_fork"), "broadcast", {}, group);
  lines.node(id("ffn_norm"), ...normOf(decoder), group);
  const gated = activation === "swiglu";
  lines.node(id("ffn_up"), "linear", { out_dim: gated ? 2 * ffnDim : ffnDim, bias: ffnBias }, group);
  lines.node(id("ffn_act"), ...activationOf(activation), group);
  lines.node(id("ffn_down"), "linear", { out_dim: dim, bias: ffnBias }, group);
  lines.node(id("ffn_join"), "add", {}, group);
  const chain = [
    "fork",
    "norm",
    "attention",
    "join",
    "ffn_fork",
    "ffn_norm",
    "ffn_up",
    "ffn_act",
    "ffn_down",
    "ffn_join",
  ];
  chain.forEach((name, i) => {
    lines.edge(i === 0 ? before : id(chain[i - 1] as string), id(name));
  });
  lines.edge(id("fork"), id("join"), 1);
  lines.edge(id("ffn_fork"), id("ffn_join"), 1);
  return id("ffn_join");
}

type Config = Readonly<Record<string, string | number | boolean>>;

function ropeConfig(rope: Rope | undefined): Config {
  if (rope === undefined) return {};
  const { theta, scaling } = rope;
  const plain = { position_encoding: "rope", rope_theta: theta };
  if (scaling === undefined) return plain;
  const scaled = { ...plain, rope_scaling: scaling.kind, rope_factor: scaling.factor };
  if (scaling.kind === "linear") return scaled;
  return {
    ...scaled,
    rope_low_freq_factor: scaling.lowFrequencyFactor,
    rope_high_freq_factor: scaling.highFrequencyFactor,
    rope_original_positions: scaling.originalPositions,
  };
}

function normOf({ family, epsilon }: Decoder): [type: string, config: Config] {
  return [family === "gpt2" ? "layernorm" : "rmsnorm", { epsilon }];
}

function activationOf(activation: Decoder["activation"]): [type: string, config: Config] {
  return activation === "gelu-tanh" ? ["gelu", { approximate: "tanh" }] : [activation, {}];
}

class DefinitionLines {
  readonly nodes: string[] = [];
  readonly edges: string[] = [];

  node(id: string, type: string, ...configs: Config[]): void {
    const entries = configs.flatMap((config) => Object.entries(config));
    const config =
      entries.length > 0 ? `, config: { ${entries.map(([key, value]) => `${key}: ${value}`).join(", ")} }` : "";
    this.nodes.push(`  - { id: ${id}, type: ${type}${config} }`);
  }

  /** From slot `slot` of a fork to the same slot of a join. */
  edge(from: string, to: string, slot = 0): void {
    const slots = slot === 0 ? "" : `, from_slot: ${slot}, to_slot: ${slot}`;
    this.edges.push(`  - { from: ${from}, to: ${to}${slots} }`);
  }
}
