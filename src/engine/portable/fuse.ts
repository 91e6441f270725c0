// Which element-wise nodes share a loop: a node joins the loop of its readers when they are all in one loop over the same
// shape, so that its result never goes to memory. Depends on the graph alone, never on sizes of memory or machine. Engines say what
// is element-wise for them, and how many values a loop may read.

import { type Shape, sameShape } from "../../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../../graph/model.ts";

export interface Fusion {
  /** Whether the node runs inside another node's loop. */
  isInside(node: GraphNode): boolean;
  isElementwise(node: GraphNode): boolean;
  /** The nodes inside a loop, in an order that can be executed; without its root. */
  membersOf(root: GraphNode): readonly GraphNode[];
}

export interface FusionRules {
  readonly isElementwise: (node: GraphNode, inputs: readonly ValueInfo[], output: ValueInfo) => boolean;
  /** Whether a loop may read all of these values from memory; absent: any number of them. */
  readonly fits?: (leaves: ReadonlySet<string>) => boolean;
}

const rowOperators = new Set(["Softmax", "LogSoftmax", "ReduceSum", "ReduceMean", "ReduceMax"]);

export function fuse(graph: GraphModel, info: (name: string) => ValueInfo, rules: FusionRules): Fusion {
  const readers = new Map<string, GraphNode[]>();
  for (const node of graph.nodes)
    for (const name of node.inputs) readers.set(name, [...(readers.get(name) ?? []), node]);
  const outputs = new Set(graph.outputs.map(({ name }) => name));
  const elementwise = new Set(
    graph.nodes.filter((node) => {
      const inputs = node.inputs.map((name) => info(name));
      return rules.isElementwise(node, inputs, info(node.outputs[0] as string));
    }),
  );
  const leavesOf = new Map<GraphNode, ReadonlySet<string>>();
  const roots = new Map<GraphNode, GraphNode>();
  const members = new Map<GraphNode, GraphNode[]>();
  for (const node of graph.nodes.toReversed()) {
    if (!elementwise.has(node)) continue;
    const out = node.outputs[0] as string;
    const candidates = new Set((readers.get(out) ?? []).map((reader) => roots.get(reader) ?? rowRoot(reader, info)));
    const [root] = candidates;
    const joined = () => {
      const leaves = new Set(root && (leavesOf.get(root) ?? root.inputs));
      leaves.delete(out);
      for (const name of node.inputs) leaves.add(name);
      return leaves;
    };
    const leaves = rules.fits && joined();
    const joins =
      root !== undefined &&
      candidates.size === 1 &&
      !outputs.has(out) &&
      sameShape(info(out).shape, loopShape(root, elementwise.has(root), info)) &&
      (leaves === undefined || rules.fits?.(leaves) === true);
    roots.set(node, joins ? root : node);
    if (!joins) continue;
    if (leaves !== undefined) leavesOf.set(root, leaves);
    members.set(root, [node, ...(members.get(root) ?? [])]);
  }
  return {
    isInside: (node) => elementwise.has(node) && roots.get(node) !== node,
    isElementwise: (node) => elementwise.has(node),
    membersOf: (root) => members.get(root) ?? [],
  };
}

/** The loop that computes a value: its nodes in their order, and the values that it reads. */
export function loopOf(fusion: Fusion, root: GraphNode, value: string): { nodes: GraphNode[]; reads: Set<string> } {
  const nodes = [...fusion.membersOf(root), ...(fusion.isElementwise(root) ? [root] : [])];
  const inside = new Set(nodes.map((node) => node.outputs[0] as string));
  const reads = new Set(nodes.flatMap((node) => node.inputs.filter((name) => !inside.has(name))));
  if (nodes.length === 0) reads.add(value);
  return { nodes, reads };
}

/** Row operators compute their input as they read it, along the last axis or over any reduced axes. */
function rowRoot(reader: GraphNode, info: (name: string) => ValueInfo): GraphNode | undefined {
  const { shape, dtype } = info(reader.inputs[0] as string);
  if (!rowOperators.has(reader.op) || dtype !== "float32") return undefined;
  const axis = reader.attributes["axis"] ?? -1;
  const isSoftmax = reader.op === "Softmax" || reader.op === "LogSoftmax";
  return isSoftmax && axis !== -1 && axis !== shape.length - 1 ? undefined : reader;
}

function loopShape(root: GraphNode, isElementwise: boolean, info: (name: string) => ValueInfo): Shape {
  return info((isElementwise ? root.outputs[0] : root.inputs[0]) as string).shape;
}
