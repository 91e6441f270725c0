// attention_head and attention: one head, or all heads in one node, with grouped keys and values.
// The matrices of queries, keys and values are one parameter, [dim, (heads + 2 kv_heads) * head_dim].

import type { Alibi } from "../graphs/positions.ts";
import { adapted, adapterFlops, adapterKeys, adapterParameters } from "./adapter.ts";
import type { AttentionLayout, BuildSite, Value } from "./build-site.ts";
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
  ones,
  type ParameterSpec,
  refuse,
  type Site,
  showShape,
  uniform,
  zeros,
} from "./node-type.ts";
import { ropeKeys, ropeOf } from "./rope.ts";

const sharedKeys: KeySpecs = {
  seq_len: dimension("tokens in a sample"),
  causal: { kind: "flag", default: true, meaning: "a position sees only itself and those before it" },
  position_encoding: {
    kind: "choice",
    choices: ["none", "rope", "alibi"],
    default: "none",
    meaning: "`rope` rotates queries and keys by their positions, `alibi` lowers scores with the distance",
  },
  ...ropeKeys,
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
    qk_norm: {
      kind: "choice",
      choices: ["none", "head", "head_layernorm", "flat"],
      meaning:
        "norm of queries and keys in front of their rotation: of each head (RMS or layer norm), or of all heads at once",
    },
    qk_norm_epsilon: { kind: "number", min: 0, max: 1, meaning: "qk_norm: added to the variance; 1e-6 by default" },
    score_scale: {
      kind: "number",
      min: 1e-6,
      max: 1e6,
      meaning: "scores are multiplied with it; 1 / sqrt(head_dim) by default",
    },
    score_cap: { kind: "number", min: 1e-3, max: 1e6, meaning: "scores are bent to cap * tanh(score / cap)" },
    window: dimension("a position sees only so many: itself and those right before it"),
    alibi_scale: {
      kind: "number",
      min: 1e-6,
      max: 1e6,
      meaning: "alibi: distances are multiplied with it; 1 by default",
    },
    alibi_bfloat16: { kind: "flag", meaning: "alibi: distances are rounded to bfloat16, as Falcon was trained" },
    ...adapterKeys,
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

type QkNorm = "none" | "head" | "head_layernorm" | "flat";

interface Heads {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly inputDim: number;
  readonly projection: boolean;
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
  readonly qkNorm: QkNorm;
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
    qkNorm: "none",
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
    qkNorm: (config.optionalText("qk_norm") ?? "none") as QkNorm,
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
  ropeOf(site, headDim);
  checkScores(site, layout);
  const parameters: ParameterSpec[] = [{ name: "qkv.weight", shape: [inputDim, qkvWidth], initial: uniform(inputDim) }];
  if (layout.qkvBias) parameters.push({ name: "qkv.bias", shape: [qkvWidth], initial: uniform(inputDim) });
  if (projection) parameters.push({ name: "output.weight", shape: [width, inputDim], initial: uniform(width) });
  if (projection && layout.outputBias)
    parameters.push({ name: "output.bias", shape: [inputDim], initial: uniform(width) });
  parameters.push(...normParameters(layout));
  parameters.push(...adapterParameters(site, inputDim, qkvWidth, "qkv."));
  if (projection) parameters.push(...adapterParameters(site, width, inputDim, "output."));
  const adapters =
    adapterFlops(site, seqLen, inputDim, qkvWidth) + (projection ? adapterFlops(site, seqLen, width, inputDim) : 0);
  const scores = seqLen * seqLen * headDim * heads;
  return description([floats([seqLen, projection ? inputDim : width])], {
    parameters,
    flops: 2 * seqLen * inputDim * qkvWidth + 4 * scores + (projection ? 2 * seqLen * width * inputDim : 0) + adapters,
    saved: seqLen * (qkvWidth + width + (projection ? inputDim : 0)),
  });
}

function checkScores(site: Site, { qkNorm }: Heads): void {
  const { config } = site;
  const alibi = config.text("position_encoding") === "alibi";
  for (const key of ["alibi_scale", "alibi_bfloat16"])
    if (config.has(key) && !alibi) refuse(site, `key "${key}" needs position_encoding "alibi"`);
  if (config.has("qk_norm_epsilon") && qkNorm === "none") refuse(site, `key "qk_norm_epsilon" needs qk_norm`);
  if (!config.flag("causal") && (alibi || config.has("window")))
    refuse(site, `${alibi ? `position_encoding "alibi"` : `key "window"`} needs causal attention`);
}

function normParameters({ qkNorm, heads, kvHeads, headDim }: Heads): ParameterSpec[] {
  if (qkNorm === "none") return [];
  return [["q_norm", heads] as const, ["k_norm", kvHeads] as const].flatMap(([name, count]) => {
    const shape = [qkNorm === "flat" ? count * headDim : headDim];
    const scale = { name: `${name}.weight`, shape, initial: ones };
    return qkNorm === "head_layernorm" ? [scale, { name: `${name}.bias`, shape, initial: zeros }] : [scale];
  });
}

/** Norms of queries and keys, as they are built. */
function normsOf(site: BuildSite, { qkNorm }: Heads): AttentionLayout["norm"] {
  if (qkNorm === "none") return undefined;
  const epsilon = site.config.optionalNumber("qk_norm_epsilon") ?? 1e-6;
  const normed = (name: string) => (value: Value) =>
    qkNorm === "head_layernorm"
      ? site.graph.op("LayerNormalization", [value, site.parameter(`${name}.weight`), site.parameter(`${name}.bias`)], {
          axis: -1,
          epsilon,
        })
      : site.graph.op("RmsNorm", [value, site.parameter(`${name}.weight`)], { epsilon });
  return { flat: qkNorm === "flat", query: normed("q_norm"), key: normed("k_norm") };
}

function alibiOf({ config }: Site): Alibi | undefined {
  if (config.text("position_encoding") !== "alibi") return undefined;
  return {
    scale: config.optionalNumber("alibi_scale") ?? 1,
    bfloat16: config.has("alibi_bfloat16") && config.flag("alibi_bfloat16"),
  };
}

function build(site: BuildSite, layout: Heads): Value[] {
  const { graph, config } = site;
  const { heads, kvHeads, headDim } = layout;
  const x = site.input(0);
  const qkvBias = layout.qkvBias ? site.parameter("qkv.bias") : undefined;
  const qkv = adapted(site, x, applyLinear(graph, x, site.parameter("qkv.weight"), qkvBias), "qkv.");
  const attended = site.attend(qkv, {
    heads,
    kvHeads,
    headDim,
    causal: config.flag("causal"),
    rope: ropeOf(site, headDim),
    alibi: alibiOf(site),
    norm: normsOf(site, layout),
    scale: config.optionalNumber("score_scale"),
    cap: config.optionalNumber("score_cap"),
    window: config.optionalNumber("window"),
  });
  if (!layout.projection) return [attended];
  const bias = layout.outputBias ? site.parameter("output.bias") : undefined;
  const projected = applyLinear(graph, attended, site.parameter("output.weight"), bias);
  return [adapted(site, attended, projected, "output.")];
}
