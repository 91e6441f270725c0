// Joins narrow matrix products of one input into a wide one: attention heads that are written one by one then
// cost as little as heads that are written together. Joining the weights costs far less than narrow products do.

import { GraphBuilder, type Value } from "./builder.ts";
import type { GraphModel, GraphNode } from "./model.ts";

/** Wider products run at full speed alone. */
const narrowColumnsMax = 256;

/** Inputs and outputs keep their names and order. */
export function mergeLinears(model: GraphModel): GraphModel {
  const groups = narrowGroups(model);
  if (groups.size === 0) return model;
  const builder = new GraphBuilder(model.name);
  const values = builder.replay({ ...model, nodes: [] });
  for (const node of model.nodes) {
    if (values.has(node.outputs[0] as string)) continue;
    const group = groups.get(node);
    if (group) addMerged(builder, group, values);
    else {
      const inputs = node.inputs.map((name) => values.get(name) as Value);
      const outputs =
        node.op === "Identity" ? inputs : builder.ops(node.op, inputs, node.attributes, node.outputs.length);
      for (const [i, name] of node.outputs.entries()) values.set(name, outputs[i] as Value);
    }
  }
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}

/** For every node that is to be joined, all nodes of its group in their order. */
function narrowGroups(model: GraphModel): Map<GraphNode, GraphNode[]> {
  const shapes = new Map(model.inputs.map(({ name, shape }) => [name, shape]));
  const groups = new Map<string, GraphNode[]>();
  for (const node of model.nodes) {
    if (node.op !== "Linear") continue;
    const [x, ...weights] = node.inputs as [string, ...string[]];
    const transposed = node.attributes["transposed"] === 1;
    const columns = shapes.get(weights[0] as string)?.[transposed ? 0 : 1];
    if (columns === undefined || columns > narrowColumnsMax || !weights.every((name) => shapes.has(name))) continue;
    const key = `${x}|${transposed}|${weights.length}`;
    groups.set(key, [...(groups.get(key) ?? []), node]);
  }
  const several = [...groups.values()].filter((nodes) => nodes.length > 1);
  return new Map(several.flatMap((nodes) => nodes.map((node) => [node, nodes])));
}

function addMerged(builder: GraphBuilder, nodes: readonly GraphNode[], values: Map<string, Value>): void {
  const [first] = nodes as [GraphNode];
  const operand = (node: GraphNode, i: number) => values.get(node.inputs[i] as string) as Value;
  const columnAxis = first.attributes["transposed"] === 1 ? 0 : 1;
  const weights = nodes.map((node) => operand(node, 1));
  const inputs = [operand(first, 0), builder.op("Concat", weights, { axis: columnAxis })];
  if (first.inputs.length === 3)
    inputs.push(
      builder.op(
        "Concat",
        nodes.map((node) => operand(node, 2)),
        { axis: 0 },
      ),
    );
  const wide = builder.op("Linear", inputs, first.attributes);
  const split = weights.map((weight) => weight.shape[columnAxis] as number);
  const parts = builder.ops("Split", [wide], { axis: wide.shape.length - 1, split }, nodes.length);
  for (const [i, node] of nodes.entries()) values.set(node.outputs[0] as string, parts[i] as Value);
}
