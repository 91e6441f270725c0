// Weight matrices stored the other way round for serving: the native runtime multiplies a few rows with them nearly
// twice as fast, since it need not pack them anew for every call.

import type { Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { lowerModel } from "../../graph/lower.ts";
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

/** In place, by a worker: a large matrix would hold the caller's thread up for seconds. `name` is free at the executor. */
export async function turn(tensor: Tensor, executor: Executor, name: string): Promise<Tensor> {
  const [rows = 0, columns = 0] = tensor.shape;
  const graph = new GraphBuilder(name);
  const given = graph.input("given", "float32", [rows, columns]);
  graph.output(graph.op("Transpose", [given], { perm: [1, 0] }), "turned");
  executor.register(name, lowerModel(graph.build()));
  try {
    const results = await executor.run(name, { given: tensor });
    const turned = results["turned"] as Tensor;
    await executor.kernel({ kind: "copy", into: tensor, of: turned });
    executor.recycle([turned]);
  } finally {
    executor.unregister(name);
  }
  return { ...tensor, shape: [columns, rows] };
}
