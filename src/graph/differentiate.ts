// Reverse-mode differentiation: appends to a graph the nodes that compute gradients, operator by operator.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import { sameShape } from "../core/tensor.ts";
import type { GraphBuilder, Value } from "./builder.ts";
import type { GraphNode } from "./model.ts";
import { operatorOf } from "./operators/registry.ts";

export interface SparseRows {
  readonly table: Value;
  readonly ids: Value;
  /** [ids, width]: the gradient of each row that was looked up. */
  readonly rows: Value;
}

export interface Gradients {
  /** By the name of the value; absent where nothing depends on it. */
  readonly dense: ReadonlyMap<string, Value>;
  readonly sparse: readonly SparseRows[];
}

/** `nodes` are the forward nodes in the builder; `seeds` are gradients of some of their outputs. */
export function differentiate(
  builder: GraphBuilder,
  nodes: readonly GraphNode[],
  seeds: ReadonlyMap<string, Value>,
  targets: ReadonlySet<string>,
): Gradients {
  const needed = dependents(nodes, targets);
  const parts = new Map<string, Value[]>();
  const sparse: SparseRows[] = [];
  const contribute = (name: string, gradient: Value) => {
    const list = parts.get(name);
    if (list) list.push(gradient);
    else parts.set(name, [gradient]);
  };
  for (const [name, gradient] of seeds) contribute(name, gradient);
  for (const node of nodes.toReversed()) {
    const gradients = node.outputs.map((name) => sumOf(builder, parts.get(name)));
    const wanted = node.inputs.map((name) => needed.has(name));
    if (!wanted.includes(true) || gradients.every((gradient) => gradient === undefined)) continue;
    const operator = operatorOf(node.op);
    if (!operator.vjp)
      fail("unimplemented", `${node.op} (${node.name}) has no derivative: train the part after it only`);
    const inputs = node.inputs.map((name) => builder.valueOf(name));
    const results = operator.vjp({
      builder,
      inputs,
      outputs: node.outputs.map((name) => builder.valueOf(name)),
      attributes: node.attributes,
      gradients,
      wanted,
      sparse: (table, ids, rows) => sparse.push({ table, ids, rows }),
    });
    for (const [i, input] of inputs.entries()) {
      const gradient = results[i];
      if (!gradient || !wanted[i]) continue;
      assert(
        sameShape(gradient.shape, input.shape),
        `the gradient of input ${i} of ${node.op} has its shape [${input.shape}], not [${gradient.shape}]`,
      );
      contribute(input.name, gradient);
    }
  }
  const dense = new Map<string, Value>();
  for (const name of targets) {
    const sum = sumOf(builder, parts.get(name));
    if (sum) dense.set(name, sum);
  }
  return { dense, sparse };
}

/** Values that `targets` can influence, themselves included. */
function dependents(nodes: readonly GraphNode[], targets: ReadonlySet<string>): Set<string> {
  const reached = new Set(targets);
  for (const node of nodes)
    if (node.inputs.some((input) => reached.has(input))) for (const output of node.outputs) reached.add(output);
  return reached;
}

/** ((a + b) + c) + ..: the order in which the reverse pass met them, so it is the same everywhere. */
function sumOf(builder: GraphBuilder, parts: readonly Value[] | undefined): Value | undefined {
  if (parts === undefined) return undefined;
  return parts.reduce((sum, part) => builder.op("Add", [sum, part]));
}
