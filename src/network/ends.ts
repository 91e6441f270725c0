// The ends of a plan: what leaves the network (outputs, costs, metrics) and what the dataset must bring.

import { fail } from "../core/errors.ts";
import type { Signature } from "./catalogue/node-type.ts";
import type { Compilation } from "./compilation.ts";
import type { Definition, DefinitionOutput } from "./definition.ts";
import type { DataPlan, PlanEdge, PlanMetric, PlanOutput } from "./plan.ts";
import type { ResolvedNode } from "./resolve.ts";
import { didYouMean, quoted } from "./suggest.ts";

export function checkCosts(definition: Definition, nodes: readonly ResolvedNode[]): void {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const [i, cost] of definition.costs.entries()) {
    const node = byId.get(cost.node);
    if (node === undefined)
      fail(
        "invalid_argument",
        `costs[${i}]: there is no node ${quoted(cost.node)}${didYouMean(cost.node, byId.keys())}`,
      );
    if (!node.nodeType.cost || cost.slot !== 0)
      fail(
        "invalid_argument",
        `costs[${i}]: node "${cost.node}" is of type ${node.nodeType.type}, a cost is output 0 of a cost node`,
      );
  }
  const listed = new Set(definition.costs.map((cost) => cost.node));
  if (listed.size > 0)
    for (const node of nodes)
      if (node.nodeType.cost && !listed.has(node.id))
        fail("invalid_argument", `node "${node.id}" is a cost that "costs" does not list: list it or remove it`);
  for (const node of nodes)
    for (const input of node.inputs)
      if (input.kind === "node" && byId.get(input.node)!.nodeType.cost)
        fail(
          "invalid_argument",
          `node "${node.id}" takes the loss of "${input.node}" as its input: a loss ends the network`,
        );
}

export function planOutput(
  { nodes, clusterOf }: Compilation,
  output: DefinitionOutput,
  where: string,
  edges: readonly PlanEdge[],
): PlanOutput {
  const node = nodes.get(output.node);
  if (node === undefined)
    fail(
      "invalid_argument",
      `${where}: there is no node ${quoted(output.node)}${didYouMean(output.node, nodes.keys())}`,
    );
  if (node.description.outputs[output.slot] === undefined)
    fail("invalid_argument", `${where}: node "${output.node}" has no output slot ${output.slot}`);
  const name = `${output.node}.${output.slot}`;
  const edge = edges.find((each) => each.kind === "activation" && each.fromPort.startsWith(`${name}>`));
  const port = node.nodeType.cost ? "loss" : (edge?.fromPort ?? name);
  return { name: output.name, vnode: clusterOf.get(output.node)!, port };
}

export function planCosts({ definition, nodes, clusterOf }: Compilation): PlanOutput[] {
  if (definition.costs.length > 0)
    return definition.costs.map((cost) => ({ name: cost.name, vnode: clusterOf.get(cost.node)!, port: "loss" }));
  return [...nodes.values()]
    .filter((node) => node.nodeType.cost)
    .map((node) => ({ name: node.id, vnode: clusterOf.get(node.id)!, port: "loss" }));
}

const metricTypes = ["learning_rate", "loss", "accuracy", "perplexity", "gradient_norm", "weight_norm"];

export function planMetric(
  { nodes, clusterOf }: Compilation,
  metric: Definition["metrics"][number],
  index: number,
): PlanMetric {
  const where = `metrics[${index}]`;
  if (!nodes.has(metric.node))
    fail(
      "invalid_argument",
      `${where}: there is no node ${quoted(metric.node)}${didYouMean(metric.node, nodes.keys())}`,
    );
  if (!metricTypes.includes(metric.type))
    fail("invalid_argument", `${where}: type must be one of ${metricTypes.join(", ")}, found ${quoted(metric.type)}`);
  return { name: metric.name, kind: metric.type, vnode: clusterOf.get(metric.node)! };
}

export function dataOf(nodes: readonly ResolvedNode[]): { inputs?: DataPlan; labels?: DataPlan } {
  const root = nodes.find((node) => node.inputs[0]?.kind === "data");
  const cost = nodes.find((node) => node.description.labels !== undefined);
  const limits = nodes.map((node) => node.description.idsBelow).filter((limit) => limit !== undefined);
  return {
    ...(root && {
      inputs: dataPlan(root.inputSignatures[0]!, limits.length > 0 ? Math.min(...limits) : undefined),
    }),
    ...(cost && { labels: dataPlan(cost.description.labels!, classesOf(cost)) }),
  };
}

function dataPlan({ kind, shape }: Signature, below: number | undefined): DataPlan {
  if (kind === "floats") return { shape, wire: "float32" };
  return { shape, wire: "int32", ...(below !== undefined && { below }) };
}

function classesOf(cost: ResolvedNode): number | undefined {
  if (cost.tie !== undefined) return cost.tie.layout === "out_in" ? cost.tie.shape[0] : cost.tie.shape[1];
  return cost.inputSignatures[0]!.shape.at(-1);
}
