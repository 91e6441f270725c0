// From a definition to a checked graph of nodes: types and keys known, edges sound, no cycles, every shape
// inferred. Every error names the node, the key and what was expected.

import { fail } from "../core/errors.ts";
import { sameShape } from "../core/tensor.ts";
import { entryOf } from "../core/words/table.ts";
import { type Config, commonKeys, readConfig } from "./catalogue/config.ts";
import {
  type Description,
  lastAxis,
  type NodeType,
  refuse,
  type Signature,
  showShape,
  type Tie,
} from "./catalogue/node-type.ts";
import { nodeTypeOf } from "./catalogue/registry.ts";
import { checkCommonSizes, checkData, checkDeclaredInput, checkDeclaredOutputs, checkSizes } from "./checks.ts";
import type { Definition, DefinitionNode } from "./definition.ts";
import { orderNodes } from "./order.ts";
import { didYouMean, quoted } from "./suggest.ts";

export type FloatPrecision = "float32" | "float16" | "bfloat16";

export type NodeInput =
  | { readonly kind: "node"; readonly node: string; readonly slot: number }
  /** From the dataset. */
  | { readonly kind: "data" };

export interface ResolvedNode {
  readonly id: string;
  readonly nodeType: NodeType;
  readonly config: Config;
  readonly inputs: readonly NodeInput[];
  readonly inputSignatures: readonly Signature[];
  readonly description: Description;
  readonly tie?: Tie;
  readonly parameterPrecision: FloatPrecision;
  readonly activationPrecision: FloatPrecision | "int8";
}

interface Declared {
  readonly node: DefinitionNode;
  readonly nodeType: NodeType;
  readonly config: Config;
  /** By slot; holes are unconnected. */
  readonly incoming: (NodeInput | undefined)[];
  publisher?: string;
}

/** In an order in which every node comes after those it needs; ties count as needs. */
export function resolve(definition: Definition): ResolvedNode[] {
  const declared = declare(definition);
  connect(definition, declared);
  tie(declared);
  const resolved = new Map<string, ResolvedNode>();
  for (const id of orderNodes(definition, tiePairs(declared)))
    resolved.set(id, resolveNode(declared.get(id)!, resolved, definition));
  checkData([...resolved.values()]);
  return [...resolved.values()];
}

function declare(definition: Definition): Map<string, Declared> {
  const declared = new Map<string, Declared>();
  for (const node of definition.nodes) {
    if (declared.has(node.id)) fail("invalid_argument", `node "${node.id}" is defined twice: ids must be unique`);
    const nodeType = nodeTypeOf(node.id, node.type);
    const config = readConfig(node.id, { ...commonKeys, ...nodeType.keys }, node.config);
    declared.set(node.id, { node, nodeType, config, incoming: [] });
  }
  return declared;
}

function connect(definition: Definition, declared: Map<string, Declared>): void {
  for (const [index, edge] of definition.edges.entries()) {
    const where = `edges[${index}] (${edge.from} -> ${edge.to})`;
    const from = known(declared, edge.from, where);
    const to = known(declared, edge.to, where);
    const outputs = from.nodeType.outputs(from.config);
    if (edge.fromSlot >= outputs)
      fail(
        "invalid_argument",
        `${where}: node "${edge.from}" has ${slots("output", outputs)}, there is no from_slot ${edge.fromSlot}`,
      );
    const { max } = to.nodeType.inputs(to.config);
    if (edge.toSlot >= max)
      fail(
        "invalid_argument",
        `${where}: node "${edge.to}" has ${slots("input", max)}, there is no to_slot ${edge.toSlot}`,
      );
    if (to.incoming[edge.toSlot] !== undefined)
      fail(
        "invalid_argument",
        `${where}: input ${edge.toSlot} of node "${edge.to}" is connected twice; use add or stack to join values`,
      );
    to.incoming[edge.toSlot] = { kind: "node", node: edge.from, slot: edge.fromSlot };
  }
  for (const { node, nodeType, config, incoming } of declared.values()) {
    const { min } = nodeType.inputs(config);
    if (incoming.length === 0 && nodeType.root !== undefined && min === 1) incoming.push({ kind: "data" });
    for (let slot = 0; slot < Math.max(min, incoming.length); slot++)
      if (incoming[slot] === undefined)
        refuse(node, `input ${slot} is not connected: add an edge to it (to_slot: ${slot})`);
  }
}

function known(declared: Map<string, Declared>, id: string, where: string): Declared {
  return (
    declared.get(id) ??
    fail("invalid_argument", `${where}: there is no node ${quoted(id)}${didYouMean(id, declared.keys())}`)
  );
}

function slots(kind: string, count: number): string {
  return count === 1 ? `one ${kind} slot (0)` : `${count} ${kind} slots (0 to ${count - 1})`;
}

function tie(declared: Map<string, Declared>): void {
  const publishers = new Map<string, string>();
  for (const { node, config } of declared.values()) {
    const alias = config.optionalText("shared_weight_alias");
    if (alias === undefined) continue;
    const other = publishers.get(alias);
    if (other !== undefined)
      refuse(node, `key "shared_weight_alias": "${other}" already publishes its weights as ${quoted(alias)}`);
    publishers.set(alias, node.id);
  }
  for (const entry of declared.values()) {
    const alias = entry.config.optionalText("tie_weight_alias");
    if (alias === undefined) continue;
    if (!entry.nodeType.tiesWeights)
      refuse(entry.node, `key "tie_weight_alias": a node of type ${entry.nodeType.type} cannot use shared weights`);
    const publisher = publishers.get(alias);
    if (publisher === undefined)
      refuse(
        entry.node,
        `key "tie_weight_alias": nobody publishes ${quoted(alias)}${
          didYouMean(alias, publishers.keys()) || `; give the node that owns the weights shared_weight_alias: ${alias}`
        }`,
      );
    if (publisher === entry.node.id) refuse(entry.node, `key "tie_weight_alias": a node cannot be tied to itself`);
    entry.publisher = publisher;
  }
}

function tiePairs(declared: Map<string, Declared>): [from: string, to: string][] {
  return [...declared.values()].flatMap(({ node, publisher }) =>
    publisher === undefined ? [] : [[publisher, node.id] as [string, string]],
  );
}

function resolveNode(entry: Declared, resolved: Map<string, ResolvedNode>, definition: Definition): ResolvedNode {
  const { node, nodeType, config } = entry;
  const inputs = entry.incoming as NodeInput[];
  const inputSignatures = inputs.map((input, slot) => {
    if (input.kind === "data") return rootSignature(entry);
    const signature = resolved.get(input.node)!.description.outputs[input.slot]!;
    checkDeclaredInput(entry, slot, signature, `"${input.node}" output ${input.slot}`);
    return signature;
  });
  const tie = tieOf(entry, resolved);
  const site = { id: node.id, config, inputs: inputSignatures, ...(tie && { tie }) };
  const description = nodeType.describe(site);
  checkCommonSizes(site, nodeType, description);
  checkSizes(site, description);
  checkDeclaredOutputs(entry, description);
  if (config.has("shared_weight_alias") && description.shared === undefined)
    refuse(node, `key "shared_weight_alias": a node of type ${nodeType.type} has no weight matrix of its own to share`);
  return {
    id: node.id,
    nodeType,
    config,
    inputs,
    inputSignatures,
    description,
    ...(tie && { tie }),
    parameterPrecision: parameterPrecision(entry, definition),
    activationPrecision: activationPrecision(entry, definition),
  };
}

function rootSignature(entry: Declared): Signature {
  const { node, nodeType, config } = entry;
  const root = nodeType.root!(config);
  const declared = node.inputShapes?.[0] ?? config.shape("input_shape");
  const shape = declared ?? root.shape;
  if (shape === undefined)
    refuse(node, `takes data from the dataset, so its shape must be given: add "input_shapes: [[...]]"`);
  // A token embedder as a later node decides the kind for broadcasts in front of it; roots of other types take floats.
  if (declared !== undefined && root.shape !== undefined && !sameShape(declared, root.shape)) {
    const compatible = declared.length > root.shape.length && lastAxis(declared) === lastAxis(root.shape);
    if (!compatible)
      refuse(node, `input_shapes says ${showShape(declared)}, but its keys say ${showShape(root.shape)}`);
  }
  return { kind: root.kind, shape };
}

function tieOf(entry: Declared, resolved: Map<string, ResolvedNode>): Tie | undefined {
  if (entry.publisher === undefined) return undefined;
  const { description } = resolved.get(entry.publisher)!;
  const { shared } = description;
  if (shared === undefined)
    return fail(
      "invalid_argument",
      `node "${entry.publisher}": key "shared_weight_alias": it has no weight matrix of its own to share`,
    );
  return {
    alias: entry.config.text("tie_weight_alias"),
    publisher: entry.publisher,
    shape: description.parameters.find((parameter) => parameter.name === shared.parameter)!.shape,
    layout: shared.layout,
  };
}

const precisionNames: Readonly<Record<string, FloatPrecision>> = {
  float32: "float32",
  fp32: "float32",
  float16: "float16",
  fp16: "float16",
  bfloat16: "bfloat16",
  bf16: "bfloat16",
};

function declaredPrecision(
  { config }: Declared,
  { precision }: Definition,
  key: "param_precision" | "activation_precision",
): string {
  const own = config.optionalText(key) ?? config.optionalText("precision");
  return (own ?? precision[key] ?? precision.precision ?? "float32").toLowerCase();
}

function parameterPrecision(declared: Declared, definition: Definition): FloatPrecision {
  const name = declaredPrecision(declared, definition, "param_precision");
  if (name === "int8")
    fail("invalid_argument", "the definition: weights do not learn in int8; only activation_precision may be int8");
  return (
    entryOf(precisionNames, name) ??
    fail("invalid_argument", `the definition: precision must be one of float32, fp16, bf16, found ${quoted(name)}`)
  );
}

/** How activations and their gradients travel. */
function activationPrecision(declared: Declared, definition: Definition): FloatPrecision | "int8" {
  const name = declaredPrecision(declared, definition, "activation_precision");
  if (name === "int8") return "int8";
  return (
    entryOf(precisionNames, name) ??
    fail(
      "invalid_argument",
      `the definition: activation_precision must be one of float32, fp16, bf16, int8, found ${quoted(name)}`,
    )
  );
}
