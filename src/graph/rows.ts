// Graphs for any number of rows. The builder knows concrete shapes only, so such a graph is built for a number of rows that
// occurs nowhere else; whatever size is a multiple of it depends on the rows. Binding it to a number gives a usual graph,
// opening it one whose sizes a runtime finds out by itself.

import { fail } from "../core/errors.ts";
import type { Shape } from "../core/tensor.ts";
import type { Attribute, GraphModel, GraphNode, ValueInfo } from "./model.ts";

/** A prime above any size of a model: no size is a multiple of it by chance. */
export const anyRows = 1_048_583;

/** How many elements a size has for each row; undefined if it does not depend on the rows. */
export function perRow(size: number): number | undefined {
  return size > 0 && size % anyRows === 0 ? size / anyRows : undefined;
}

export function shapeFor(shape: Shape, rows: number): Shape {
  return shape.map((size) => (perRow(size) === undefined ? size : (size / anyRows) * rows));
}

/** The graph for so many rows. */
export function bindRows(model: GraphModel, rows: number): GraphModel {
  const bound = ({ name, dtype, shape }: ValueInfo): ValueInfo => ({ name, dtype, shape: shapeFor(shape, rows) });
  return {
    ...model,
    inputs: model.inputs.map(bound),
    outputs: model.outputs.map(bound),
    nodes: withSizes(model.nodes, (size) => (perRow(size) ?? 0) * rows),
  };
}

/** The graph with sizes left open: a runtime with shapes of its own computes any number of rows with it. */
export function openRows(model: GraphModel): GraphModel {
  for (const { op, name, attributes } of model.nodes) {
    const open = Object.values(attributes).flatMap((value) => sizesIn(value).filter((size) => perRow(size)));
    if (open.length > (op === "Reshape" ? 1 : 0))
      fail("unimplemented", `graph "${model.name}" cannot leave the rows of ${name} open`);
  }
  return { ...model, nodes: withSizes(model.nodes, () => -1) };
}

function sizesIn(value: Attribute): readonly number[] {
  return Array.isArray(value) && value.every((item) => typeof item === "number") ? (value as readonly number[]) : [];
}

function withSizes(nodes: readonly GraphNode[], replaced: (size: number) => number): GraphNode[] {
  return nodes.map((node) => {
    const changed = Object.entries(node.attributes).filter(([, value]) => sizesIn(value).some((size) => perRow(size)));
    if (changed.length === 0) return node;
    const attributes = Object.fromEntries(
      changed.map(([name, value]) => [name, sizesIn(value).map((size) => (perRow(size) ? replaced(size) : size))]),
    );
    return { ...node, attributes: { ...node.attributes, ...attributes } };
  });
}
