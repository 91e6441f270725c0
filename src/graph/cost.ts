// What a graph costs: arithmetic, memory of its constants, and the most that is alive at once.

import { tensorBytes } from "../core/tensor.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import type { GraphModel, GraphNode } from "./model.ts";
import { operatorOf } from "./operators/registry.ts";

export interface GraphCost {
  /** Multiply-adds count as two. */
  readonly flops: number;
  readonly nodes: number;
  readonly inputBytes: number;
  readonly outputBytes: number;
  readonly constantBytes: number;
  /** Intermediate values and outputs alive at the worst moment, without inputs and constants. */
  readonly peakBytes: number;
}

export function costOf(model: GraphModel): GraphCost {
  const values = inferValues(model);
  const bytesOf = (name: string) => {
    const { dtype, shape } = values.get(name) as Value;
    return tensorBytes(dtype, shape);
  };
  const total = (names: readonly string[]) => names.reduce((sum, name) => sum + bytesOf(name), 0);
  return {
    flops: model.nodes.reduce((sum, node) => sum + flopsOf(node, values), 0),
    nodes: model.nodes.length,
    inputBytes: total(model.inputs.map((input) => input.name)),
    outputBytes: total(model.outputs.map((output) => output.name)),
    constantBytes: total(Object.keys(model.constants)),
    peakBytes: peakBytes(model, bytesOf),
  };
}

/** Every value of a graph by name, with dtype and shape. */
export function inferValues(model: GraphModel): Map<string, Value> {
  return new GraphBuilder(model.name).replay(model);
}

export function flopsOf(node: GraphNode, values: ReadonlyMap<string, Value>): number {
  const [inputs, outputs] = [node.inputs, node.outputs].map((names) =>
    names.map((name) => values.get(name) as Value),
  ) as [Value[], Value[]];
  const operator = operatorOf(node.op);
  if (operator.flops) return operator.flops(inputs, outputs, node.attributes);
  return outputs.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
}

function peakBytes(model: GraphModel, bytesOf: (name: string) => number): number {
  const lastUse = new Map<string, number>();
  for (const [i, node] of model.nodes.entries()) for (const name of node.inputs) lastUse.set(name, i);
  for (const { name } of model.outputs) lastUse.set(name, Number.POSITIVE_INFINITY);
  const produced = new Set<string>();
  let [alive, peak] = [0, 0];
  for (const [i, node] of model.nodes.entries()) {
    for (const name of node.outputs) {
      produced.add(name);
      alive += bytesOf(name);
    }
    peak = Math.max(peak, alive);
    for (const name of new Set([...node.inputs, ...node.outputs]))
      if (produced.has(name) && (lastUse.get(name) ?? i) === i) alive -= bytesOf(name);
  }
  return peak;
}
