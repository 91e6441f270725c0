// Joins sums with the matrix product that feeds them: Gemm adds its third input while it multiplies, which
// saves one pass over memory for every gradient that has several parts.

import { sameShape } from "../core/tensor.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import type { GraphModel, GraphNode } from "./model.ts";

/** Expects a lowered graph; inputs and outputs keep their names and order. */
export function fuseSums(model: GraphModel): GraphModel {
  const uses = countUses(model);
  const producers = new Map(model.nodes.flatMap((node) => node.outputs.map((output) => [output, node] as const)));
  const builder = new GraphBuilder(model.name);
  const values = builder.replay(model, undefined, (node, _, known) =>
    node.op === "Add" ? fusedSum(builder, node, known, { uses, producers }) : undefined,
  );
  for (const { name } of model.outputs) builder.output(values.get(name) as Value, name);
  return builder.build();
}

interface Surroundings {
  readonly uses: ReadonlyMap<string, number>;
  readonly producers: ReadonlyMap<string, GraphNode>;
}

function fusedSum(
  builder: GraphBuilder,
  node: GraphNode,
  values: ReadonlyMap<string, Value>,
  around: Surroundings,
): Value | undefined {
  const [a, b] = node.inputs.map((name) => values.get(name)) as [Value, Value];
  if (!sameShape(a.shape, b.shape)) return undefined;
  for (const [operand, other] of [
    [1, a],
    [0, b],
  ] as const) {
    const gemm = onlyGemm(node.inputs[operand] as string, around);
    if (!gemm) continue;
    const product = values.get(gemm.outputs[0] as string) as Value;
    const added = builder.op("Reshape", [other], { shape: product.shape });
    const factors = gemm.inputs.map((name) => values.get(name) as Value);
    const sum = builder.op("Gemm", [...factors, added], gemm.attributes);
    return builder.op("Reshape", [sum], { shape: a.shape });
  }
  return undefined;
}

/** The Gemm without a third input that alone makes this value, perhaps through a Reshape, for one user. */
function onlyGemm(name: string, { uses, producers }: Surroundings): GraphNode | undefined {
  const node = producers.get(name);
  if (node === undefined || uses.get(name) !== 1) return undefined;
  if (node.op === "Reshape") {
    const inner = producers.get(node.inputs[0] as string);
    return inner?.op === "Gemm" ? onlyGemm(node.inputs[0] as string, { uses, producers }) : undefined;
  }
  return node.op === "Gemm" && node.inputs.length === 2 ? node : undefined;
}

function countUses(model: GraphModel): Map<string, number> {
  const uses = new Map<string, number>();
  const names = [...model.nodes.flatMap((node) => node.inputs), ...model.outputs.map((output) => output.name)];
  for (const name of names) uses.set(name, (uses.get(name) ?? 0) + 1);
  return uses;
}
