// Weight matrices stored the other way round for serving: the native runtime multiplies a few rows with them nearly
// twice as fast, since it need not pack them anew for every call.

import type { Tensor } from "../../core/tensor.ts";
import type { GraphModel, GraphNode } from "../../graph/model.ts";

/** Names among `parameters` that the graph uses as the right side of a product and for nothing else. */
export function turnable(graph: GraphModel, parameters: ReadonlySet<string>): Set<string> {
  const found = new Set(graph.nodes.filter(isPlainProduct).map((node) => node.inputs[1] as string));
  for (const node of graph.nodes)
    for (const [index, input] of node.inputs.entries()) if (!(index === 1 && isPlainProduct(node))) found.delete(input);
  return new Set([...found].filter((name) => parameters.has(name)));
}

function isPlainProduct({ op, attributes }: GraphNode): boolean {
  return op === "Gemm" && !attributes["transB"];
}

/** The same graph over turned weights. */
export function withTurned(graph: GraphModel, turned: ReadonlySet<string>): GraphModel {
  const used = graph.inputs.filter(({ name }) => turned.has(name));
  if (used.length === 0) return graph;
  const back = new Set<string>();
  const nodes = graph.nodes.map((node): GraphNode => {
    if (isPlainProduct(node) && turned.has(node.inputs[1] as string))
      return { ...node, attributes: { ...node.attributes, transB: 1 } };
    const inputs = node.inputs.map((name) => {
      if (!turned.has(name)) return name;
      back.add(name);
      return `${name}:back`;
    });
    return { ...node, inputs };
  });
  const turns = [...back].map(
    (name): GraphNode => ({
      ...{ op: "Transpose", name: `${name}:turn`, inputs: [name], outputs: [`${name}:back`] },
      attributes: { perm: [1, 0] },
    }),
  );
  const inputs = graph.inputs.map((info) =>
    turned.has(info.name) ? { ...info, shape: info.shape.toReversed() } : info,
  );
  return { ...graph, inputs, nodes: [...turns, ...nodes] };
}

/** In place. */
export function turn(tensor: Tensor): Tensor {
  const [rows = 0, columns = 0] = tensor.shape;
  const into = tensor.data as Float32Array;
  const from = into.slice();
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) into[column * rows + row] = from[row * columns + column] as number;
  return { ...tensor, shape: [columns, rows] };
}
