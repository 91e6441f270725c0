// Which family a network is of: a definition that definition.ts could have written, whoever wrote it. The decoder is read
// from its nodes, written down again, and both must be the same network; so nothing is exported that is not exactly it.

import { hasCode } from "../core/errors.ts";
import { commonKeys } from "../network/catalogue/config.ts";
import { parseDefinition } from "../network/definition.ts";
import { type ResolvedNode, resolve } from "../network/resolve.ts";
import type { Activation, Decoder, Layer } from "./decoder.ts";
import { definitionOf } from "./definition.ts";
import type { ConfigJson } from "./families/config-reader.ts";
import { readDecoder } from "./families/read.ts";
import type { Family } from "./families/row.ts";
import { families } from "./families/table.ts";
import { configOf } from "./families/write.ts";
import { layerOf } from "./recognise-attention.ts";

export interface Recognised {
  readonly family: Family;
  readonly decoder: Decoder;
  readonly context: number;
  readonly config: ConfigJson;
}

/** Undefined: the network has the form of no family. */
export function recognise(text: string): Recognised | undefined {
  const definition = parseDefinition(text);
  const nodes = byRole(resolve(definition));
  const form = formOf(nodes);
  const marked = definition.metadata["family"];
  const candidates = families.filter(({ model, inside }) => !inside && (marked === undefined || model === marked));
  for (const family of candidates) {
    const config = form && configOf({ ...form.decoder, family: family.model }, family, form.context);
    const read = config && tryRead(config, form.context);
    if (!read) continue;
    const again = byRole(resolve(parseDefinition(definitionOf(read.decoder, "again", read.context))));
    if (sameNetwork(nodes, again)) return { ...read, config };
  }
  return undefined;
}

function tryRead(config: ConfigJson, context: number) {
  try {
    return readDecoder(config, context);
  } catch (error) {
    if (hasCode(error, "unimplemented") || hasCode(error, "invalid_argument")) return undefined;
    throw error;
  }
}

type Nodes = ReadonlyMap<string, ResolvedNode>;

/** By id; the activation between two linear layers may be called as one likes. */
function byRole(resolved: readonly ResolvedNode[]): Nodes {
  const names = new Map<string, string>();
  for (const node of resolved) {
    const [input] = node.inputs;
    const up = input?.kind === "node" ? /^(ffn|expert)_up_([\d_]+)$/.exec(input.node) : null;
    if (up) names.set(node.id, `${up[1]}_act_${up[2]}`);
  }
  const named = (id: string) => names.get(id) ?? id;
  return new Map(
    resolved.map((node) => [
      named(node.id),
      {
        ...node,
        inputs: node.inputs.map((input) => (input.kind === "node" ? { ...input, node: named(input.node) } : input)),
      },
    ]),
  );
}

function formOf(nodes: Nodes): { decoder: Omit<Decoder, "family">; context: number } | undefined {
  const [embedder, attention, head] = ["embedder", "attention_1", "lm_head"].map((id) => nodes.get(id));
  if (embedder?.nodeType.type !== "embedder" || attention?.nodeType.type !== "attention" || !head) return undefined;
  const has = (id: string) => nodes.has(id);
  const number = (id: string, key: string) => nodes.get(id)?.config.optionalNumber(key);
  const bias = (id: string) => nodes.get(id)?.description.parameters.some(({ name }) => name === "bias") ?? false;
  let layers = 0;
  while (has(`attention_${layers + 1}`)) layers++;
  const first = layerOf(attention);
  const norm = ["norm_1", "post_norm_1", "head_norm"].map((id) => nodes.get(id)).find((node) => node !== undefined);
  const [expert, router] = [nodes.get("expert_up_1_0"), nodes.get("router_1")];
  const activation = activationOf(nodes.get(expert ? "expert_act_1_0" : "ffn_act_1"));
  const width = attention.inputSignatures[0]?.shape[1] ?? 0;
  const embeddingDim = embedder.description.outputs[0]?.shape[1] ?? 0;
  const down = nodes.get(expert ? "expert_down_1_0" : "ffn_down_1");
  const after = nodes.get("norm_1")?.inputs[0];
  const pre = has("norm_1") && !(after?.kind === "node" && after.node === "join_1");
  const late = has("post_norm_1");
  if (!norm || !activation || !down) return undefined;
  const { heads, kvHeads, headDim, qkNorm, qkvBias, outputBias, scoreScale, scoreCap, alibi } = first;
  const each: Layer[] = [];
  for (let block = 1; block <= layers; block++) each.push(layerOf(nodes.get(`attention_${block}`) as ResolvedNode));
  return {
    context: embedder.description.outputs[0]?.shape[0] ?? 0,
    decoder: {
      layers,
      dim: width,
      heads,
      kvHeads,
      headDim,
      ffnDim: down.inputSignatures[0]?.shape[1] ?? 0,
      vocabulary: embedder.config.number("vocab_size"),
      positions: embedder.description.outputs[0]?.shape[0] ?? 0,
      norm: norm.nodeType.type === "layernorm" ? "layernorm" : "rmsnorm",
      epsilon: norm.config.optionalNumber("epsilon") ?? 0,
      place: pre ? (late ? "both" : "pre") : late ? "post" : "after",
      parallel: has("ffn_join_1") ? 0 : has("ffn_norm_1") ? 2 : 1,
      finalNorm: has("head_norm"),
      qkNorm,
      qkvBias,
      outputBias,
      ffnBias: bias("ffn_up_1"),
      headBias: bias("lm_head"),
      activation,
      tied: head.tie !== undefined,
      learnedPositions: has("positions") || embedder.config.text("position_encoding") === "learned",
      embeddingDim: embeddingDim === width ? undefined : embeddingDim,
      embeddingScale: number("embedding_scale", "factor"),
      embeddingNorm: has("embedding_norm"),
      residualScale: number("scale_1", "factor"),
      scoreScale,
      scoreCap,
      logitScale: number("logit_scale", "factor"),
      logitCap: number("logit_cap", "cap"),
      alibi,
      experts: router?.description.outputs[0]?.shape[1],
      expertsPerToken: number("shares_1", "top_k"),
      each: each.map(({ rope, window }) => ({ rope, window })),
    },
  };
}

function activationOf(node: ResolvedNode | undefined): Activation | undefined {
  if (node === undefined) return undefined;
  const tanh = node.config.optionalText("approximate") === "tanh" ? "-tanh" : "";
  return `${node.nodeType.type}${tanh}` as Activation;
}

/** Keys that say where weights live, how they learn, or what shapes say anyway. */
const apart = new Set([
  ...Object.keys(commonKeys),
  "vocab_size",
  "num_kv_heads",
  "head_dim",
  "bias",
  "qkv_bias",
  "output_bias",
  "num_inputs",
]);

/** What a node computes, apart from its name: its type, what it reads, the shapes of its weights, its other keys. */
function essence(node: ResolvedNode): string {
  const config = Object.keys(node.nodeType.keys)
    .filter((key) => !apart.has(key) && node.config.has(key))
    .map((key) => [key, node.config.canonical().includes(`"${key}"`) ? valueIn(node, key) : undefined]);
  const attention = node.nodeType.type === "attention" ? layerOf(node) : undefined;
  const kept = attention ? [] : config;
  return JSON.stringify([
    node.nodeType.type,
    node.inputs,
    node.tie?.publisher,
    node.description.parameters.map(({ name, shape }) => [name, shape]),
    node.description.outputs,
    kept,
    attention,
  ]);
}

function valueIn(node: ResolvedNode, key: string): unknown {
  const entries = JSON.parse(node.config.canonical()) as [string, unknown][];
  return entries.find(([name]) => name === key)?.[1];
}

function sameNetwork(one: Nodes, other: Nodes): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([role, node]) => {
    const twin = other.get(role);
    return twin !== undefined && essence(node) === essence(twin);
  });
}
