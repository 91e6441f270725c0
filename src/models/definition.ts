// A decoder as a network definition: the YAML that anyone could have written, one VNode for each block, and one for each
// expert where a block has some.

import { parseId } from "../core/ids.ts";
import type { Rope } from "../network/graphs/positions.ts";
import { type Decoder, isGated, type Layer } from "./decoder.ts";

/** Families whose networks carry no note of it: their form says it. */
const unmarked = new Set(["llama", "qwen2", "gpt2"]);

/** `context`: tokens of a sample; prompts and answers must fit. */
export function definitionOf(decoder: Decoder, name: string, context: number): string {
  const lines = new DefinitionLines();
  let last = addEmbedding(lines, decoder, context);
  for (let block = 1; block <= decoder.layers; block++) last = addBlock(lines, decoder, block, last);
  const logits = addHead(lines, decoder, last);
  const mark = unmarked.has(decoder.family) ? "" : `metadata: { family: ${decoder.family} }\n`;
  return `name: ${JSON.stringify(parseId(name, "the model's name"))}
${mark}nodes:
${lines.nodes.join("\n")}
edges:
${lines.edges.join("\n")}
outputs: [{ name: logits, node_id: ${logits} }]
costs: [{ name: loss, node_id: loss }]
`;
}

type Config = Readonly<Record<string, string | number | boolean | readonly number[]>>;
/** Type and configuration of a node. */
type Node = readonly [type: string, config: Config];

const factorOf = (factor: number | undefined): factor is number => factor !== undefined && factor !== 1;

/** Token embedding with what some families put behind it. Gives its last node. */
function addEmbedding(lines: DefinitionLines, decoder: Decoder, context: number): string {
  const { vocabulary, dim, tied, learnedPositions, embeddingDim, embeddingScale, embeddingNorm } = decoder;
  const more: [string, Node][] = [];
  if (embeddingDim !== undefined) {
    more.push(["project_in", ["linear", { out_dim: dim, bias: false }]]);
    if (learnedPositions) more.push(["positions", ["positions", {}]]);
  }
  if (factorOf(embeddingScale)) more.push(["embedding_scale", ["scale", { factor: embeddingScale }]]);
  if (embeddingNorm) more.push(["embedding_norm", normOf(decoder)]);
  const group: Config = more.length > 0 ? { colocate_group: "embedding" } : {};
  lines.node("embedder", "embedder", {
    vocab_size: vocabulary,
    dim: embeddingDim ?? dim,
    seq_len: context,
    ...(learnedPositions && embeddingDim === undefined ? { position_encoding: "learned" } : {}),
    ...(tied ? { shared_weight_alias: "tokens" } : {}),
    ...group,
  });
  let last = "embedder";
  for (const [id, node] of more) {
    lines.node(id, ...node, group);
    lines.edge(last, id);
    last = id;
  }
  return last;
}

/** Gives the node of the logits. */
function addHead(lines: DefinitionLines, decoder: Decoder, before: string): string {
  const { vocabulary, tied, finalNorm, embeddingDim, headBias, logitScale, logitCap } = decoder;
  const head = { colocate_group: "head" };
  const chain: [string, Node][] = [];
  if (finalNorm) chain.push(["head_norm", normOf(decoder)]);
  if (embeddingDim !== undefined) chain.push(["project_out", ["linear", { out_dim: embeddingDim, bias: false }]]);
  const bias: Config = headBias ? { bias: true } : {};
  chain.push([
    "lm_head",
    ["linear", tied ? { tie_weight_alias: "tokens", ...bias } : { out_dim: vocabulary, bias: headBias }],
  ]);
  if (factorOf(logitScale)) chain.push(["logit_scale", ["scale", { factor: logitScale }]]);
  if (logitCap !== undefined) chain.push(["logit_cap", ["soft_cap", { cap: logitCap }]]);
  const logits = chain.at(-1)?.[0] ?? "lm_head";
  for (const [id, node] of chain) lines.node(id, ...node, head);
  lines.node("loss", "cost", { cost_function: "ce_logits" }, head);
  let last = before;
  for (const id of [...chain.map(([each]) => each), "loss"]) {
    lines.edge(last, id);
    last = id;
  }
  return logits;
}

/** Gives its last node. */
function addBlock(lines: DefinitionLines, decoder: Decoder, block: number, before: string): string {
  return decoder.parallel > 0
    ? addParallelBlock(lines, decoder, block, before)
    : addSequentialBlock(lines, decoder, block, before);
}

/** Attention, then the feed-forward part, each beside a residual connection. */
function addSequentialBlock(lines: DefinitionLines, decoder: Decoder, block: number, before: string): string {
  const group = { colocate_group: `block_${block}` };
  const id = (name: string) => `${name}_${block}`;
  const { place, residualScale, experts } = decoder;
  const [early, late] = [place === "pre" || place === "both", place === "post" || place === "both"];
  const scaled = (name: string): [string, Node][] =>
    factorOf(residualScale) ? [[name, ["scale", { factor: residualScale }]]] : [];
  const when = (on: boolean, name: string): [string, Node][] => (on ? [[name, normOf(decoder)]] : []);
  const attending: [string, Node][] = [
    ["fork", ["broadcast", {}]],
    ...when(early, "norm"),
    ["attention", attentionOf(decoder, decoder.each[block - 1] as Layer)],
    ...when(late, "post_norm"),
    ...scaled("scale"),
    ["join", ["add", {}]],
    ...when(place === "after", "norm"),
    ["ffn_fork", ["broadcast", {}]],
    ...when(early, "ffn_norm"),
  ];
  const joining: [string, Node][] = [
    ...when(late, "ffn_post_norm"),
    ...scaled("ffn_scale"),
    ["ffn_join", ["add", {}]],
    ...when(place === "after", "ffn_norm"),
  ];
  const chain = experts === undefined ? [...attending, ...ffnOf(decoder), ...joining] : attending;
  for (const [name, node] of chain) lines.node(id(name), ...node, group);
  let last = before;
  for (const [name] of chain) {
    lines.edge(last, id(name));
    last = id(name);
  }
  if (experts !== undefined) last = addExperts(lines, decoder, block, last, joining);
  lines.edge(id("fork"), id("join"), 1);
  lines.edge(id("ffn_fork"), id("ffn_join"), 1);
  return last;
}

/**
 * Experts as VNodes of their own. Their results are mixed where the next block (or the head) begins: a VNode must not
 * wait for what it itself has sent.
 */
function addExperts(
  lines: DefinitionLines,
  decoder: Decoder,
  block: number,
  before: string,
  joining: readonly [string, Node][],
): string {
  const { experts = 0, expertsPerToken = 1 } = decoder;
  const group = { colocate_group: `block_${block}` };
  const next = { colocate_group: block === decoder.layers ? "head" : `block_${block + 1}` };
  const id = (name: string) => `${name}_${block}`;
  lines.node(id("expert_fork"), "broadcast", { num_outputs: experts + 1 }, group);
  lines.node(id("router"), "linear", { out_dim: experts, bias: false }, group);
  lines.node(id("shares"), "route", { top_k: expertsPerToken }, group);
  lines.node(id("share_fork"), "broadcast", { num_outputs: experts }, next);
  lines.node(id("mix"), "add", {}, next);
  for (const [name, node] of joining) lines.node(id(name), ...node, next);
  lines.edge(before, id("expert_fork"));
  lines.edge(id("expert_fork"), id("router"));
  lines.edge(id("router"), id("shares"));
  lines.edge(id("shares"), id("share_fork"));
  for (let expert = 0; expert < experts; expert++) {
    const own = { colocate_group: `block_${block}_expert_${expert}` };
    const part = (name: string) => `${name}_${block}_${expert}`;
    const chain = ffnOf(decoder).map(([name, node]) => [name.replace("ffn", "expert"), node] as const);
    for (const [name, node] of chain) lines.node(part(name), ...node, own);
    lines.node(part("weigh"), "weigh", { index: expert }, next);
    const names = [...chain.map(([name]) => part(name)), part("weigh")];
    names.forEach((name, i) => {
      if (i === 0) lines.edgeBetween(id("expert_fork"), expert + 1, name, 0);
      else lines.edge(names[i - 1] as string, name);
    });
    lines.edgeBetween(id("share_fork"), expert, part("weigh"), 1);
    lines.edgeBetween(part("weigh"), 0, id("mix"), expert);
  }
  let last = id("mix");
  for (const [name] of joining) {
    lines.edge(last, id(name));
    last = id(name);
  }
  return last;
}

/** Attention and feed-forward part side by side, from one norm or from two. */
function addParallelBlock(lines: DefinitionLines, decoder: Decoder, block: number, before: string): string {
  const group = { colocate_group: `block_${block}` };
  const id = (name: string) => `${name}_${block}`;
  const two = decoder.parallel === 2;
  const ffn = ffnOf(decoder);
  lines.node(id("fork"), "broadcast", { num_outputs: two ? 3 : 2 }, group);
  lines.node(id("norm"), ...normOf(decoder), group);
  if (two) lines.node(id("ffn_norm"), ...normOf(decoder), group);
  else lines.node(id("ffn_fork"), "broadcast", {}, group);
  lines.node(id("attention"), ...attentionOf(decoder, decoder.each[block - 1] as Layer), group);
  for (const [name, node] of ffn) lines.node(id(name), ...node, group);
  lines.node(id("join"), "add", {}, group);
  lines.edge(before, id("fork"));
  lines.edge(id("fork"), id("norm"));
  if (two) {
    lines.edge(id("norm"), id("attention"));
    lines.edgeBetween(id("fork"), 2, id("ffn_norm"), 0);
    lines.edge(id("ffn_norm"), id("ffn_up"));
  } else {
    lines.edge(id("norm"), id("ffn_fork"));
    lines.edge(id("ffn_fork"), id("attention"));
    lines.edgeBetween(id("ffn_fork"), 1, id("ffn_up"), 0);
  }
  ffn.slice(1).forEach(([name], i) => {
    lines.edge(id(ffn[i]?.[0] as string), id(name));
  });
  lines.edge(id("attention"), id("join"));
  lines.edge(id("fork"), id("join"), 1);
  lines.edgeBetween(id("ffn_down"), 0, id("join"), 2);
  return id("join");
}

function ffnOf({ activation, ffnDim, ffnBias, dim }: Decoder): [string, Node][] {
  return [
    ["ffn_up", ["linear", { out_dim: isGated(activation) ? 2 * ffnDim : ffnDim, bias: ffnBias }]],
    ["ffn_act", activationOf(activation)],
    ["ffn_down", ["linear", { out_dim: dim, bias: ffnBias }]],
  ];
}

function attentionOf(decoder: Decoder, { rope, window }: Layer): Node {
  const { heads, kvHeads, headDim, qkvBias, outputBias, qkNorm, epsilon, scoreScale, scoreCap, alibi } = decoder;
  return [
    "attention",
    {
      num_heads: heads,
      num_kv_heads: kvHeads,
      head_dim: headDim,
      ...ropeConfig(rope),
      ...(alibi && { position_encoding: "alibi", alibi_scale: alibi.scale, alibi_bfloat16: alibi.bfloat16 }),
      qkv_bias: qkvBias,
      output_bias: outputBias,
      ...(qkNorm !== "none" && { qk_norm: qkNorm, qk_norm_epsilon: epsilon }),
      ...(scoreScale !== undefined && { score_scale: scoreScale }),
      ...(scoreCap !== undefined && { score_cap: scoreCap }),
      ...(window !== undefined && { window }),
    },
  ];
}

function ropeConfig(rope: Rope | undefined): Config {
  if (rope === undefined) return {};
  const { theta, scaling, dims, amplitude } = rope;
  return {
    position_encoding: "rope",
    rope_theta: theta,
    ...(scaling && scalingConfig(scaling)),
    ...(dims !== undefined && { rope_dims: dims }),
    ...(amplitude !== undefined && { rope_amplitude: amplitude }),
  };
}

function scalingConfig(scaling: NonNullable<Rope["scaling"]>): Config {
  switch (scaling.kind) {
    case "linear":
      return { rope_scaling: scaling.kind, rope_factor: scaling.factor };
    case "llama3":
      return {
        rope_scaling: scaling.kind,
        rope_factor: scaling.factor,
        rope_low_freq_factor: scaling.lowFrequencyFactor,
        rope_high_freq_factor: scaling.highFrequencyFactor,
        rope_original_positions: scaling.originalPositions,
      };
    case "yarn":
      return {
        rope_scaling: scaling.kind,
        rope_factor: scaling.factor,
        rope_beta_fast: scaling.betaFast,
        rope_beta_slow: scaling.betaSlow,
        rope_original_positions: scaling.originalPositions,
        ...(!scaling.truncate && { rope_truncate: false }),
      };
    case "factors":
      return { rope_scaling: scaling.kind, rope_factors: scaling.factors };
  }
}

function normOf({ norm, epsilon }: Decoder): Node {
  return [norm, { epsilon }];
}

function activationOf(activation: Decoder["activation"]): Node {
  const [type = "", approximate] = activation.split("-");
  return [type, approximate === undefined ? {} : { approximate }];
}

class DefinitionLines {
  readonly nodes: string[] = [];
  readonly edges: string[] = [];

  node(id: string, type: string, ...configs: Config[]): void {
    const entries = configs.flatMap((config) => Object.entries(config));
    const show = (value: Config[string]) => (typeof value === "object" ? `[${value.join(", ")}]` : value);
    const config =
      entries.length > 0 ? `, config: { ${entries.map(([key, value]) => `${key}: ${show(value)}`).join(", ")} }` : "";
    this.nodes.push(`  - { id: ${id}, type: ${type}${config} }`);
  }

  /** From slot `slot` of a fork to the same slot of a join. */
  edge(from: string, to: string, slot = 0): void {
    this.edgeBetween(from, slot, to, slot);
  }

  edgeBetween(from: string, fromSlot: number, to: string, toSlot: number): void {
    const slots = (fromSlot === 0 ? "" : `, from_slot: ${fromSlot}`) + (toSlot === 0 ? "" : `, to_slot: ${toSlot}`);
    this.edges.push(`  - { from: ${from}, to: ${to}${slots} }`);
  }
}
