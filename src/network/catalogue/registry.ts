// All node types, listed by hand: what is not here does not exist.

import { fail } from "../../core/errors.ts";
import { didYouMean, quoted } from "../suggest.ts";
import { geglu, gelu, relu, sigmoid, silu, softmax, swiglu, tanh } from "./activation.ts";
import { attention, attentionHead } from "./attention.ts";
import { conv2d, maxpool2d } from "./conv.ts";
import { cost, tiedLmHeadCe } from "./cost.ts";
import { dropout, mask } from "./dropout.ts";
import { embedder, positions } from "./embedder.ts";
import { route, weigh } from "./experts.ts";
import { linear } from "./linear.ts";
import type { NodeType } from "./node-type.ts";
import { layernorm, rmsnorm } from "./norm.ts";
import { onnx } from "./onnx.ts";
import { add, broadcast, detokenizer, flatten, reshape, stack, tokenizer } from "./plumbing.ts";
import { scale, softCap } from "./scale.ts";

export const nodeTypes: readonly NodeType[] = [
  linear,
  embedder,
  positions,
  layernorm,
  rmsnorm,
  attentionHead,
  attention,
  relu,
  gelu,
  silu,
  tanh,
  sigmoid,
  softmax,
  swiglu,
  geglu,
  scale,
  softCap,
  route,
  weigh,
  dropout,
  mask,
  broadcast,
  stack,
  add,
  reshape,
  flatten,
  conv2d,
  maxpool2d,
  tokenizer,
  detokenizer,
  cost,
  tiedLmHeadCe,
  onnx,
];

const byName = new Map<string, NodeType>();
for (const nodeType of nodeTypes)
  for (const name of [nodeType.type, ...(nodeType.aliases ?? [])]) byName.set(name, nodeType);

export function nodeTypeOf(node: string, type: string): NodeType {
  const found = byName.get(type.toLowerCase());
  if (found !== undefined) return found;
  const names = [...byName.keys()];
  const hint = didYouMean(type, names) || `; known types are ${nodeTypes.map((known) => known.type).join(", ")}`;
  return fail("invalid_argument", `node "${node}": unknown type ${quoted(type)}${hint}`);
}
