// attention_head and attention: one head, or all heads in one node, with grouped keys and values.
// The matrices of queries, keys and values are one parameter, [dim, (heads + 2 kv_heads) * head_dim].

import type { Rope, RopeScaling } from "../positions.ts";
import type { BuildSite, Value } from "./build-site.ts";
import { type Config, dimension, type KeySpecs } from "./config.ts";
import { applyLinear } from "./linear.ts";
import {
  agree,
  type Description,
  description,
  floatInput,
  floats,
  type NodeType,
  one,
  oneOutput,
  type ParameterSpec,
  refuse,
  type Site,
  showShape,
  uniform,
} from "./node-type.ts";

const sharedKeys: KeySpecs = {
  seq_len: dimension("tokens in a sample"),
  causal: { kind: "flag", default: true, meaning: "a position sees only itself and those before it" },
  position_encoding: {
    kind: "choice",
    choices: ["none", "rope"],
    default: "none",
    meaning: "`rope` rotates queries and keys by their positions",
  },
  rope_theta: { kind: "number", min: 1, max: 1e9, default: 10_000, meaning: "base of the rotary frequencies" },
  rope_scaling: {
    kind: "choice",
    choices: ["none", "linear", "llama3"],
    meaning: "stretches the rotary positions of a model that learned fewer of them",
  },
  rope_factor: { kind: "number", min: 1, max: 1e6, meaning: "rope_scaling: how far they are stretched" },
  rope_low_freq_factor: {
    kind: "number",
    min: 0,
    max: 1e6,
    meaning: "llama3: waves with fewer turns in rope_original_positions are stretched whole",
  },
  rope_high_freq_factor: { kind: "number", min: 0, max: 1e6, meaning: "llama3: waves with more turns are kept" },
  rope_original_positions: dimension("llama3: positions that the model learned first"),
};

export const attentionHead: NodeType = {
  type: "attention_head",
  aliases: ["singleheadattention"],
  meaning: "One attention head: `[seq_len, input_dim] -> [seq_len, head_dim]`.",
  keys: {
    ...sharedKeys,
    head_dim: dimension("size of a query, key and value", { required: true }),
    input_dim: dimension("size of the input's last axis"),
    bias: { kind: "flag", default: false, meaning: "biases of queries, keys and values" },
  },
  inputs: one,
  outputs: oneOutput,
  root: (config) => rootOf(config, "input_dim"),
  describe: (site) => describe(site, headOf(site)),
  build: (site) => build(site, headOf(site)),
};

export const attention: NodeType = {
  type: "attention",
  aliases: ["multiheadattention"],
  meaning:
    "All heads in one node: `[seq_len, dim] -> [seq_len, dim]`, or `[seq_len, num_heads * head_dim]` without projection.",
  keys: {
    ...sharedKeys,
    num_heads: { kind: "integer", min: 1, max: 1024, required: true, meaning: "query heads" },
    num_kv_heads: {
      kind: "integer",
      min: 1,
      max: 1024,
      meaning: "key and value heads, shared by groups of query heads",
    },
    head_dim: dimension("size of a query, key and value; else dim / num_heads"),
    dim: dimension("size of the input's last axis", {}),
    output_projection: { kind: "flag", default: true, meaning: "a matrix back to dim behind the heads" },
    bias: { kind: "flag", default: false, meaning: "biases everywhere, unless the next two keys say otherwise" },
    qkv_bias: { kind: "flag", meaning: "biases of queries, keys and values" },
    output_bias: { kind: "flag", meaning: "bias of the output projection" },
  },
  inputs: one,
  outputs: oneOutput,
  root: (config) => rootOf(config, "dim"),
  describe: (site) => describe(site, headsOf(site)),
  build: (site) => build(site, headsOf(site)),
};

function rootOf(config: Config, key: string) {
  const known = config.has("seq_len") && config.has(key);
  return { kind: "floats" as const, ...(known && { shape: [config.number("seq_len"), config.number(key)] }) };
}

interface Heads {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly inputDim: number;
  readonly projection: boolean;
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
}

function headOf(site: Site): Heads {
  const { config } = site;
  return {
    heads: 1,
    kvHeads: 1,
    headDim: config.number("head_dim"),
    inputDim: inputDimOf(site, "input_dim"),
    projection: false,
    qkvBias: config.flag("bias"),
    outputBias: false,
  };
}

function headsOf(site: Site): Heads {
  const { config } = site;
  const heads = config.number("num_heads");
  const kvHeads = config.optionalNumber("num_kv_heads") ?? heads;
  const inputDim = inputDimOf(site, "dim");
  if (heads % kvHeads !== 0)
    refuse(site, `key "num_heads" (${heads}) must be a multiple of "num_kv_heads" (${kvHeads})`);
  if (!config.has("head_dim") && inputDim % heads !== 0)
    refuse(site, `key "num_heads" must divide dim ${inputDim}, found ${heads}; or give "head_dim"`);
  return {
    heads,
    kvHeads,
    headDim: config.optionalNumber("head_dim") ?? inputDim / heads,
    inputDim,
    projection: config.flag("output_projection"),
    qkvBias: config.flag(config.has("qkv_bias") ? "qkv_bias" : "bias"),
    outputBias: config.flag(config.has("output_bias") ? "output_bias" : "bias"),
  };
}

function inputDimOf(site: Site, key: string): number {
  const { shape } = floatInput(site);
  if (shape.length !== 2) refuse(site, `input 0 must be [seq_len, ${key}], found ${showShape(shape)}`);
  agree(site, "seq_len", shape[0]!, `the first axis of its input ${showShape(shape)}`);
  return agree(site, key, shape[1]!, `the last axis of its input ${showShape(shape)}`);
}

function describe(site: Site, layout: Heads): Description {
  const { heads, kvHeads, headDim, inputDim, projection } = layout;
  const seqLen = site.inputs[0]!.shape[0]!;
  const width = heads * headDim;
  const qkvWidth = (heads + 2 * kvHeads) * headDim;
  if (site.config.text("position_encoding") === "rope" && headDim % 2 !== 0)
    refuse(site, `key "head_dim" must be even for position_encoding "rope", found ${headDim}`);
  ropeOf(site);
  const parameters: ParameterSpec[] = [{ name: "qkv.weight", shape: [inputDim, qkvWidth], initial: uniform(inputDim) }];
  if (layout.qkvBias) parameters.push({ name: "qkv.bias", shape: [qkvWidth], initial: uniform(inputDim) });
  if (projection) parameters.push({ name: "output.weight", shape: [width, inputDim], initial: uniform(width) });
  if (projection && layout.outputBias)
    parameters.push({ name: "output.bias", shape: [inputDim], initial: uniform(width) });
  const scores = seqLen * seqLen * headDim * heads;
  return description([floats([seqLen, projection ? inputDim : width])], {
    parameters,
    flops: 2 * seqLen * inputDim * qkvWidth + 4 * scores + (projection ? 2 * seqLen * width * inputDim : 0),
    saved: seqLen * (qkvWidth + width + (projection ? inputDim : 0)),
  });
}

const scalingKeys: Readonly<Record<string, readonly string[]>> = {
  none: [],
  linear: ["rope_factor"],
  llama3: ["rope_factor", "rope_low_freq_factor", "rope_high_freq_factor", "rope_original_positions"],
};

function ropeOf(site: Site): Rope | undefined {
  const { config } = site;
  const kind = config.optionalText("rope_scaling") ?? "none";
  if (config.text("position_encoding") !== "rope") {
    if (kind !== "none") refuse(site, `key "rope_scaling" needs position_encoding "rope"`);
    return undefined;
  }
  for (const key of scalingKeys["llama3"] ?? [])
    if (config.has(key) !== scalingKeys[kind]?.includes(key))
      refuse(site, `key "${key}" ${config.has(key) ? "means nothing" : "is missing"} for rope_scaling "${kind}"`);
  const theta = config.number("rope_theta");
  return kind === "none" ? { theta } : { theta, scaling: scalingOf(site, kind) };
}

function scalingOf(site: Site, kind: string): RopeScaling {
  const { config } = site;
  const factor = config.number("rope_factor");
  if (kind === "linear") return { kind, factor };
  const lowFrequencyFactor = config.number("rope_low_freq_factor");
  const highFrequencyFactor = config.number("rope_high_freq_factor");
  if (highFrequencyFactor <= lowFrequencyFactor)
    refuse(site, `key "rope_high_freq_factor" must be above rope_low_freq_factor, found ${highFrequencyFactor}`);
  const originalPositions = config.number("rope_original_positions");
  return { kind: "llama3", factor, lowFrequencyFactor, highFrequencyFactor, originalPositions };
}

function build(site: BuildSite, layout: Heads): Value[] {
  const { graph, config } = site;
  const { heads, kvHeads, headDim } = layout;
  const qkv = applyLinear(
    graph,
    site.input(0),
    site.parameter("qkv.weight"),
    layout.qkvBias ? site.parameter("qkv.bias") : undefined,
  );
  const attended = site.attend(qkv, {
    heads,
    kvHeads,
    headDim,
    causal: config.flag("causal"),
    rope: ropeOf(site),
  });
  if (!layout.projection) return [attended];
  const bias = layout.outputBias ? site.parameter("output.bias") : undefined;
  return [applyLinear(graph, attended, site.parameter("output.weight"), bias)];
}
