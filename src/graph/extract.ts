// Takes a part out of a list of nodes: what some outputs need, under the names that callers chose for them.

import type { Tensor } from "../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "./model.ts";

export interface Extraction {
  readonly name: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly { readonly value: ValueInfo; readonly name: string }[];
  /** In an order that can be executed. */
  readonly nodes: readonly GraphNode[];
  readonly constants: ReadonlyMap<string, Tensor>;
}

export function extract({ name, inputs, outputs, nodes, constants }: Extraction): GraphModel {
  const live = liveNodes(
    nodes,
    outputs.map(({ value }) => value.name),
  );
  const produced = new Set(live.flatMap((node) => node.outputs));
  const names = new Map<string, string>();
  const copies: GraphNode[] = [];
  for (const output of outputs) {
    const from = output.value.name;
    if (produced.has(from) && !names.has(from)) names.set(from, output.name);
    else if (from !== output.name || !produced.has(from)) copies.push(copyNode(names.get(from) ?? from, output.name));
  }
  const renamed = (value: string) => names.get(value) ?? value;
  const body = live.map((node) => ({ ...node, inputs: node.inputs.map(renamed), outputs: node.outputs.map(renamed) }));
  const all = [...body, ...copies];
  const used = new Set(all.flatMap((node) => node.inputs));
  return {
    name,
    inputs,
    outputs: outputs.map(({ value, name: as }) => ({ name: as, dtype: value.dtype, shape: value.shape })),
    nodes: all,
    constants: Object.fromEntries([...constants].filter(([key]) => used.has(key))),
  };
}

/** The nodes that `roots` depend on, in their order. */
export function liveNodes(nodes: readonly GraphNode[], roots: readonly string[]): GraphNode[] {
  const needed = new Set(roots);
  const live: GraphNode[] = [];
  for (const node of nodes.toReversed()) {
    if (!node.outputs.some((output) => needed.has(output))) continue;
    for (const input of node.inputs) needed.add(input);
    live.push(node);
  }
  return live.reverse();
}

function copyNode(from: string, to: string): GraphNode {
  return { op: "Identity", name: `copy:${to}`, inputs: [from], outputs: [to], attributes: {} };
}
