// Compiles a definition to a plan: resolve (types, shapes), fuse, then ports, edges, ties and gradients. It is
// a pure function of the definition's text, so that every PNode compiles the same plan by itself.

import { Shared } from "../core/caches/shared.ts";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256, VNodeId } from "../core/ids.ts";
import { type BodyInput, type BodyNode, mergeHeads } from "./body.ts";
import type { Signature } from "./catalogue/node-type.ts";
import type { Compilation } from "./compilation.ts";
import { type Definition, parseDefinition } from "./definition.ts";
import { activationEdges, isFrozen, judged, learning, publishedParameter, tieEdges, wireOf } from "./edges.ts";
import { checkCosts, dataOf, planCosts, planMetric, planOutput } from "./ends.ts";
import { type Cluster, fuse } from "./fuse.ts";
import { optimizerOf } from "./graphs/optimizer.ts";
import type { Plan, PlanEdge, PortPlan, VNodePlan } from "./plan.ts";
import { type ResolvedNode, resolve } from "./resolve.ts";

/** Each has a record of its own, and is placed with regard to all others. */
const vnodesMax = 4_096;

const plans = new Shared<Sha256, Plan>();

/** Compiles the text of a definition; its SHA-256 names the plan. Plans never change, so equal texts may share one. */
export function compileText(text: string): Plan {
  const hash = sha256(text);
  return plans.get(hash, () => compile(parseDefinition(text), hash));
}

export function compile(definition: Definition, hash: Sha256, options: { fuse?: boolean } = {}): Plan {
  const nodes = resolve(definition);
  checkCosts(definition, nodes);
  const { clusters, colocations } = options.fuse === false ? unfused(nodes) : fuse(nodes);
  if (clusters.length > vnodesMax)
    fail(
      "invalid_argument",
      `the network has ${clusters.length} VNodes, at most ${vnodesMax} are allowed: put nodes together by colocate_group`,
    );
  const compilation: Compilation = {
    definition,
    nodes: new Map(nodes.map((node) => [node.id, node])),
    clusterOf: new Map(clusters.flatMap(({ id, nodes }) => nodes.map((node) => [node.id, id as VNodeId] as const))),
    learns: learning(nodes),
    judged: judged(nodes),
  };
  const edges = [...activationEdges(compilation), ...tieEdges(compilation)];
  const into = Map.groupBy(edges, ({ to }) => to);
  const outOf = Map.groupBy(edges, ({ from }) => from);
  const vnodes = clusters.map((cluster) => {
    const id = cluster.id as VNodeId;
    return planVNode(compilation, cluster, into.get(id) ?? [], outOf.get(id) ?? []);
  });
  const byId = new Map(vnodes.map((vnode) => [vnode.id, vnode]));
  const ids = [...byId.keys()].sort();
  const outputs = definition.outputs.map((output, i) => planOutput(compilation, output, `outputs[${i}]`, edges));
  return {
    name: definition.name,
    definition: hash,
    vnodes: ids.map((id) => byId.get(id)!),
    order: vnodes.map((vnode) => vnode.id),
    edges,
    outputs,
    costs: planCosts(compilation),
    metrics: definition.metrics.map((metric, i) => planMetric(compilation, metric, i)),
    colocations: colocations as readonly (readonly VNodeId[])[],
    ...dataOf(nodes),
  };
}

/** Every node its own VNode: what fusion is compared with. */
function unfused(nodes: readonly ResolvedNode[]): { clusters: Cluster[]; colocations: string[][] } {
  return { clusters: nodes.map((node) => ({ id: node.id, nodes: [node] })), colocations: [] };
}

function planVNode(
  compilation: Compilation,
  cluster: Cluster,
  incoming: readonly PlanEdge[],
  leaving: readonly PlanEdge[],
): VNodePlan {
  const id = cluster.id as VNodeId;
  const outgoing = leaving.filter((edge) => edge.kind === "activation");
  const results = resultPorts(compilation, cluster, outgoing);
  const exported = new Set([
    ...outgoing.map((edge) => nodeOfPort(edge.fromPort)),
    ...results.map(({ name }) => nodeOfPort(name)),
  ]);
  const body = mergeHeads(
    cluster.nodes.map((node) => bodyNode(compilation, node, incoming)),
    exported,
  );
  const parameters = body.flatMap((node) =>
    node.description.parameters.map((parameter) => ({
      name: `${node.id}.${parameter.name}`,
      shape: parameter.shape,
      initial: parameter.initial,
      decay: parameter.shape.length > 1,
      precision: compilation.nodes.get(node.id)!.parameterPrecision,
      ...(isFrozen(node, parameter) && { frozen: true as const }),
      ...(parameter.adapter && { adapter: true as const }),
    })),
  );
  const hasLoss = cluster.nodes.some((node) => node.nodeType.cost);
  const trained = cluster.nodes.some((node) => compilation.learns.has(node.id) && compilation.judged.has(node.id));
  return {
    id,
    nodes: cluster.nodes.map((node) => node.id),
    role: hasLoss ? "loss" : trained ? "learns" : "passes",
    inputs: [...dataPorts(cluster), ...incoming.map(edgePort)],
    outputs: outgoing.map((edge) => ({ ...edgePort(edge), name: edge.fromPort })),
    results,
    parameters,
    chances: body.flatMap((node) =>
      node.description.chances.map((chance) => ({ ...chance, name: `${node.id}.${chance.name}` })),
    ),
    optimizer: optimizerOf(cluster),
    ...(hasLoss && { loss: "loss" }),
    flopsPerSample: sum(body.map((node) => node.description.flops)),
    savedBytesPerSample: 4 * sum(body.map((node) => node.description.saved)),
    body,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Ports begin with `node.slot`; node ids may hold dots, slots do not. */
function nodeOfPort(port: string): string {
  const from = port.split(">", 1)[0]!;
  return from.slice(0, from.lastIndexOf("."));
}

function edgePort(edge: PlanEdge): PortPlan {
  const { shape, wire, gradient } = edge;
  const kind = edge.kind === "tie" ? "tie" : "activation";
  return { name: edge.toPort, shape, wire, source: "edge", kind, gradient };
}

function dataPorts(cluster: Cluster): PortPlan[] {
  const ports: PortPlan[] = [];
  const take = (name: "inputs" | "labels", { shape, kind }: Signature) => {
    if (ports.some((port) => port.name === name)) return;
    const wire = kind === "tokens" ? "int32" : "float32";
    ports.push({ name, shape, wire, source: name, kind: "activation", gradient: false });
  };
  for (const node of cluster.nodes) if (node.inputs[0]?.kind === "data") take("inputs", node.inputSignatures[0]!);
  for (const node of cluster.nodes) if (node.description.labels !== undefined) take("labels", node.description.labels);
  return ports;
}

/** Network outputs of this cluster that no edge port already gives. */
function resultPorts({ definition }: Compilation, cluster: Cluster, outgoing: readonly PlanEdge[]): PortPlan[] {
  const ports: PortPlan[] = [];
  for (const output of definition.outputs) {
    const node = cluster.nodes.find((each) => each.id === output.node);
    const signature = node?.description.outputs[output.slot];
    if (node === undefined || signature === undefined || node.nodeType.cost) continue;
    const name = `${output.node}.${output.slot}`;
    if (ports.some((port) => port.name === name) || outgoing.some((edge) => edge.fromPort.startsWith(`${name}>`)))
      continue;
    ports.push({
      name,
      shape: signature.shape,
      wire: wireOf(signature, node),
      source: "edge",
      kind: "activation",
      gradient: false,
    });
  }
  return ports;
}

function bodyNode({ nodes, clusterOf }: Compilation, node: ResolvedNode, incoming: readonly PlanEdge[]): BodyNode {
  const own = clusterOf.get(node.id);
  const inputs = node.inputs.map((input, slot): BodyInput => {
    if (input.kind === "data") return { kind: "port", port: "inputs" };
    if (clusterOf.get(input.node) === own) return input;
    return { kind: "port", port: `${input.node}.${input.slot}>${node.id}.${slot}` };
  });
  const { id, nodeType, config, inputSignatures, description, tie } = node;
  if (tie === undefined) return { id, nodeType, config, inputs, inputSignatures, description };
  const parameter = publishedParameter(nodes.get(tie.publisher)!);
  const edge = incoming.find((each) => each.kind === "tie" && each.fromPort === parameter);
  const tied =
    edge === undefined ? { kind: "parameter" as const, name: parameter } : { kind: "port" as const, name: edge.toPort };
  return { id, nodeType, config, inputs, inputSignatures, description, tie, tied };
}
