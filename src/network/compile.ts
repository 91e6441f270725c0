// Compiles a definition to a plan: resolve (types, shapes), fuse, then ports, edges, ties and gradients. It is
// a pure function of the definition's text, so that every PNode compiles the same plan by itself.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { EdgeId, Sha256, VNodeId } from "../core/ids.ts";
import { type BodyInput, type BodyNode, mergeHeads } from "./body.ts";
import type { Signature } from "./catalogue/node-type.ts";
import { type Definition, type DefinitionOutput, parseDefinition } from "./definition.ts";
import { type Cluster, fuse } from "./fuse.ts";
import { optimizerOf } from "./optimizer.ts";
import type { DataPlan, Plan, PlanEdge, PlanMetric, PlanOutput, PortPlan, VNodePlan, WireType } from "./plan.ts";
import { type ResolvedNode, resolve } from "./resolve.ts";
import { didYouMean, quoted } from "./suggest.ts";

/** What a plan is made from while it is made. */
interface Compilation {
  readonly definition: Definition;
  readonly nodes: ReadonlyMap<string, ResolvedNode>;
  readonly clusterOf: ReadonlyMap<string, VNodeId>;
  /** `node` learns itself or has something upstream that does. */
  readonly learns: ReadonlySet<string>;
  /** A cost lies downstream of `node`, or it is one. */
  readonly judged: ReadonlySet<string>;
}

/** Compiles the text of a definition; its SHA-256 names the plan. */
export function compileText(text: string): Plan {
  return compile(parseDefinition(text), sha256(text));
}

export function compile(definition: Definition, hash: Sha256, options: { fuse?: boolean } = {}): Plan {
  const nodes = resolve(definition);
  checkCosts(definition, nodes);
  const { clusters, colocations } = options.fuse === false ? unfused(nodes) : fuse(nodes);
  const compilation: Compilation = {
    definition,
    nodes: new Map(nodes.map((node) => [node.id, node])),
    clusterOf: new Map(clusters.flatMap(({ id, nodes }) => nodes.map((node) => [node.id, id as VNodeId] as const))),
    learns: learning(nodes),
    judged: judged(nodes),
  };
  const edges = [...activationEdges(compilation), ...tieEdges(compilation)];
  const vnodes = clusters.map((cluster) => planVNode(compilation, cluster, edges));
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

function checkCosts(definition: Definition, nodes: readonly ResolvedNode[]): void {
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

function learning(nodes: readonly ResolvedNode[]): Set<string> {
  const learns = new Set<string>();
  for (const node of nodes) {
    const upstream = node.inputs.some((input) => input.kind === "node" && learns.has(input.node));
    if (upstream || node.description.parameters.length > 0 || node.tie !== undefined) learns.add(node.id);
  }
  return learns;
}

function judged(nodes: readonly ResolvedNode[]): Set<string> {
  const result = new Set<string>();
  for (const node of nodes.toReversed()) {
    if (node.nodeType.cost) result.add(node.id);
    if (!result.has(node.id)) continue;
    for (const input of node.inputs) if (input.kind === "node") result.add(input.node);
    if (node.tie !== undefined) result.add(node.tie.publisher);
  }
  return result;
}

function activationEdges({ definition, nodes, clusterOf, learns, judged }: Compilation): PlanEdge[] {
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

function wireOf(signature: Signature, from: ResolvedNode): WireType {
  return signature.kind === "tokens" ? "int32" : from.activationPrecision;
}

/** One edge for each matrix and VNode that uses it, however many of its nodes do. */
function tieEdges({ nodes, clusterOf, judged }: Compilation): PlanEdge[] {
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
      edges[known] = { ...edges[known]!, gradient: edges[known]!.gradient || judged.has(node.id) };
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
      gradient: judged.has(node.id),
    });
  }
  return edges;
}

function publishedParameter(publisher: ResolvedNode): string {
  return `${publisher.id}.${publisher.description.shared!.parameter}`;
}

function planVNode(compilation: Compilation, cluster: Cluster, edges: readonly PlanEdge[]): VNodePlan {
  const id = cluster.id as VNodeId;
  const incoming = edges.filter((edge) => edge.to === id);
  const outgoing = edges.filter((edge) => edge.from === id && edge.kind === "activation");
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
  const { shape, wire, kind, gradient } = edge;
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

function planOutput(
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

function planCosts({ definition, nodes, clusterOf }: Compilation): PlanOutput[] {
  if (definition.costs.length > 0)
    return definition.costs.map((cost) => ({ name: cost.name, vnode: clusterOf.get(cost.node)!, port: "loss" }));
  return [...nodes.values()]
    .filter((node) => node.nodeType.cost)
    .map((node) => ({ name: node.id, vnode: clusterOf.get(node.id)!, port: "loss" }));
}

const metricTypes = ["learning_rate", "loss", "accuracy", "perplexity", "gradient_norm", "weight_norm"];

function planMetric(
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

function dataOf(nodes: readonly ResolvedNode[]): { inputs?: DataPlan; labels?: DataPlan } {
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
