// The order in which nodes run. Values should live short: what a node needs is computed right before it.

import { tensorBytes } from "../core/tensor.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import type { GraphModel, GraphNode } from "./model.ts";

/** A node whose results are this much smaller than its largest operand frees memory by running early. */
const reducerRatio = 4;

/** `nodes` in their order, each preceded by what it still needs from `others`; then the rest of `others`. */
export function justInTime(nodes: readonly GraphNode[], others: readonly GraphNode[]): GraphNode[] {
  const producers = new Map<string, GraphNode>();
  for (const node of [...nodes, ...others]) for (const output of node.outputs) producers.set(output, node);
  const placed = new Set<GraphNode>();
  const order: GraphNode[] = [];
  const place = (node: GraphNode) => {
    if (placed.has(node)) return;
    placed.add(node);
    for (const input of node.inputs) {
      const producer = producers.get(input);
      if (producer) place(producer);
    }
    order.push(node);
  };
  for (const node of nodes) place(node);
  for (const node of others) place(node);
  return order;
}

/** Runs nodes that turn much into little as soon as they can, so that what they read can be given back. */
export function reducersFirst(model: GraphModel): GraphModel {
  const values = new GraphBuilder(model.name).replay(model);
  const bytes = (name: string) => {
    const { dtype, shape } = values.get(name) as Value;
    return tensorBytes(dtype, shape);
  };
  const reduces = (node: GraphNode) =>
    Math.max(0, ...node.inputs.map(bytes)) >= reducerRatio * node.outputs.reduce((sum, name) => sum + bytes(name), 0);
  const done = new Set([...model.inputs.map((input) => input.name), ...Object.keys(model.constants)]);
  const waiting = new Set(model.nodes.filter(reduces));
  const order: GraphNode[] = [];
  const readers = new Map<string, GraphNode[]>();
  for (const node of waiting)
    for (const input of node.inputs) readers.set(input, [...(readers.get(input) ?? []), node]);
  const run = (node: GraphNode) => {
    order.push(node);
    for (const output of node.outputs) done.add(output);
    for (const output of node.outputs) for (const reader of readers.get(output) ?? []) runReducer(reader);
  };
  const runReducer = (node: GraphNode) => {
    if (!waiting.has(node) || !node.inputs.every((input) => done.has(input))) return;
    waiting.delete(node);
    run(node);
  };
  for (const node of model.nodes)
    if (waiting.has(node)) runReducer(node);
    else if (!done.has(node.outputs[0] as string)) run(node);
  return { ...model, nodes: order };
}
