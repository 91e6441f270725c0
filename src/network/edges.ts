// Edges between VNodes: activations along the definition's edges, ties from published weights; and where
// gradients flow.

import type { EdgeId } from "../core/ids.ts";
import type { WireType } from "../core/numbers/wire-types.ts";
import type { ParameterSpec, Signature } from "./catalogue/node-type.ts";
import type { Compilation } from "./compilation.ts";
import type { PlanEdge } from "./plan.ts";
import type { ResolvedNode } from "./resolve.ts";

/** Whether a parameter of a node stays as it is. */
export function isFrozen({ config }: Pick<ResolvedNode, "config">, { adapter }: ParameterSpec): boolean {
  return !adapter && config.has("frozen") && config.flag("frozen");
}

function isFrozenTable(publisher: ResolvedNode | undefined): boolean {
  const { parameters, shared } = publisher?.description ?? {};
  const table = parameters?.find(({ name }) => name === shared?.parameter);
  return publisher !== undefined && table !== undefined && isFrozen(publisher, table);
}

export function learning(nodes: readonly ResolvedNode[]): Set<string> {
  const learns = new Set<string>();
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const node of nodes) {
    const upstream = node.inputs.some((input) => input.kind === "node" && learns.has(input.node));
    const itself = node.description.parameters.some((parameter) => !isFrozen(node, parameter));
    const borrows = node.tie !== undefined && !isFrozenTable(byId.get(node.tie.publisher));
    if (upstream || itself || borrows) learns.add(node.id);
  }
  return learns;
}

export function judged(nodes: readonly ResolvedNode[]): Set<string> {
  const result = new Set<string>();
  for (const node of nodes.toReversed()) {
    if (node.nodeType.cost) result.add(node.id);
    if (!result.has(node.id)) continue;
    for (const input of node.inputs) if (input.kind === "node") result.add(input.node);
    if (node.tie !== undefined) result.add(node.tie.publisher);
  }
  return result;
}

export function activationEdges({ definition, nodes, clusterOf, learns, judged }: Compilation): PlanEdge[] {
  return definition.edges
    .filter((edge) => clusterOf.get(edge.from) !== clusterOf.get(edge.to))
    .map((edge) => {
      const from = nodes.get(edge.from)!;
      const signature = from.description.outputs[edge.fromSlot]!;
      const id = `${edge.from}.${edge.fromSlot}>${edge.to}.${edge.toSlot}` as EdgeId;
      return {
        id,
        kind: "activation",
        from: clusterOf.get(edge.from)!,
        fromPort: id,
        to: clusterOf.get(edge.to)!,
        toPort: id,
        shape: signature.shape,
        wire: wireOf(signature, from),
        gradient: signature.kind === "floats" && learns.has(edge.from) && judged.has(edge.to),
      };
    });
}

export function wireOf(signature: Signature, from: ResolvedNode): WireType {
  return signature.kind === "tokens" ? "int32" : from.activationPrecision;
}

/** One edge for each matrix and VNode that uses it, however many of its nodes do. */
export function tieEdges({ nodes, clusterOf, judged }: Compilation): PlanEdge[] {
  const edges: PlanEdge[] = [];
  for (const node of nodes.values()) {
    if (node.tie === undefined) continue;
    const publisher = nodes.get(node.tie.publisher)!;
    const from = clusterOf.get(publisher.id)!;
    const to = clusterOf.get(node.id)!;
    const parameter = publishedParameter(publisher);
    const known = edges.findIndex((edge) => edge.fromPort === parameter && edge.to === to);
    if (from === to) continue;
    if (known >= 0) {
      edges[known] = {
        ...edges[known]!,
        gradient: edges[known]!.gradient || (judged.has(node.id) && !isFrozenTable(publisher)),
      };
      continue;
    }
    const id = `${parameter}>${node.id}.tied` as EdgeId;
    edges.push({
      id,
      kind: "tie",
      from,
      fromPort: parameter,
      to,
      toPort: id,
      shape: node.tie.shape,
      wire: publisher.parameterPrecision,
      gradient: judged.has(node.id) && !isFrozenTable(publisher),
    });
  }
  return edges;
}

export function publishedParameter(publisher: ResolvedNode): string {
  return `${publisher.id}.${publisher.description.shared!.parameter}`;
}
