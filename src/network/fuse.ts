// Which nodes become one operational VNode. It reads the definition alone, never a placement, so that where
// a VNode runs never changes its bits.
//
// A set of nodes may be fused when it is connected and convex: no path leaves it and comes back, else the
// fused VNode would wait for itself. Sets are tried one after the other on the graph with the earlier ones
// already contracted, because two sets can be convex each and still form a cycle together.

import { topologicalOrder } from "./order.ts";
import type { ResolvedNode } from "./resolve.ts";

export interface Cluster {
  readonly id: string;
  /** In topological order. */
  readonly nodes: readonly ResolvedNode[];
}

export interface Fusion {
  /** In topological order. */
  readonly clusters: readonly Cluster[];
  /** Ids of clusters that a required group keeps on one PNode though they could not be fused. */
  readonly colocations: readonly (readonly string[])[];
}

/** `nodes` in topological order. */
export function fuse(nodes: readonly ResolvedNode[]): Fusion {
  const contraction = new Contraction(nodes);
  const groups = requiredGroups(nodes);
  for (const members of groups.values())
    for (const component of components(members)) contraction.merge(component.map((node) => node.id));
  for (const node of nodes) fuseEnds(node, nodes, contraction);

  const named = contraction.clusters().map((members) => ({ id: nameOf(members, groups, nodes), nodes: members }));
  const clusterOf = new Map(named.flatMap(({ id, nodes }) => nodes.map((node) => [node.id, id] as const)));
  const clusters = inOrder(named, clusterOf);
  const colocations = [...groups.values()]
    .map((members) => [...new Set(members.map((node) => clusterOf.get(node.id)!))].sort())
    .filter((ids) => ids.length > 1);
  return { clusters, colocations };
}

function inOrder(clusters: readonly Cluster[], clusterOf: ReadonlyMap<string, string>): Cluster[] {
  const byId = new Map(clusters.map((cluster) => [cluster.id, cluster]));
  const pairs = clusters.flatMap(({ id, nodes }) =>
    nodes.flatMap(({ inputs }) =>
      inputs.flatMap((input) => {
        const from = input.kind === "node" ? clusterOf.get(input.node)! : id;
        return from === id ? [] : [[from, id] as const];
      }),
    ),
  );
  return topologicalOrder([...byId.keys()], pairs).map((id) => byId.get(id)!);
}

function requiredGroups(nodes: readonly ResolvedNode[]): Map<string, ResolvedNode[]> {
  const groups = new Map<string, ResolvedNode[]>();
  for (const node of nodes) {
    const group = requiredGroup(node);
    if (group === undefined) continue;
    const members = groups.get(group) ?? [];
    members.push(node);
    groups.set(group, members);
  }
  return groups;
}

function requiredGroup({ config }: ResolvedNode): string | undefined {
  return config.text("colocate_policy") === "required" ? config.optionalText("colocate_group") : undefined;
}

/** Parts of a group that edges connect, in the order of their first nodes. */
function components(members: readonly ResolvedNode[]): ResolvedNode[][] {
  const parent = new Map(members.map((node) => [node.id, node.id]));
  const find = (id: string): string => {
    const up = parent.get(id)!;
    if (up === id) return id;
    const root = find(up);
    parent.set(id, root);
    return root;
  };
  for (const node of members)
    for (const input of node.inputs)
      if (input.kind === "node" && parent.has(input.node)) parent.set(find(node.id), find(input.node));
  const parts = new Map<string, ResolvedNode[]>();
  for (const node of members) {
    const root = find(node.id);
    parts.set(root, [...(parts.get(root) ?? []), node]);
  }
  return [...parts.values()];
}

/**
 * Nodes without a group of their own that belong to their neighbour: a cost joins what makes its logits, so that
 * these never travel or stay whole in memory; text ends do no work of their own.
 */
function fuseEnds(node: ResolvedNode, nodes: readonly ResolvedNode[], contraction: Contraction): void {
  if (requiredGroup(node) !== undefined) return;
  const [input] = node.inputs;
  const joinsProducer = node.nodeType.cost || node.nodeType.type === "detokenizer";
  if (joinsProducer && input?.kind === "node") contraction.merge([input.node, node.id]);
  if (node.nodeType.type !== "tokenizer") return;
  const consumers = nodes.filter((other) => other.inputs.some((from) => from.kind === "node" && from.node === node.id));
  if (consumers.length === 1) contraction.merge([node.id, consumers[0]!.id]);
}

function nameOf(
  members: readonly ResolvedNode[],
  groups: ReadonlyMap<string, readonly ResolvedNode[]>,
  nodes: readonly ResolvedNode[],
): string {
  const first = (members.find((node) => node.nodeType.type !== "tokenizer") ?? members[0]!).id;
  const ids = new Set(members.map((node) => node.id));
  const names = new Set(members.map(requiredGroup).filter((group) => group !== undefined));
  const [group] = names;
  if (group === undefined || names.size > 1 || members.length === 1) return first;
  const whole = groups.get(group)!.every((node) => ids.has(node.id));
  const taken = nodes.some((node) => node.id === group && !ids.has(node.id));
  const valid = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/.test(group);
  return whole && !taken && valid ? group : first;
}

/** The graph of clusters while they grow. */
class Contraction {
  readonly #nodes: readonly ResolvedNode[];
  readonly #clusterOf = new Map<string, number>();
  readonly #members: string[][] = [];
  readonly #feeds = new Map<string, string[]>();

  constructor(nodes: readonly ResolvedNode[]) {
    this.#nodes = nodes;
    for (const [index, node] of nodes.entries()) {
      this.#clusterOf.set(node.id, index);
      this.#members.push([node.id]);
      this.#feeds.set(node.id, []);
    }
    for (const node of nodes)
      for (const input of node.inputs) if (input.kind === "node") this.#feeds.get(input.node)!.push(node.id);
  }

  /** Joins the clusters of these nodes, unless that would make the graph of clusters cyclic. */
  merge(ids: readonly string[]): void {
    const joined = [...new Set(ids.map((id) => this.#clusterOf.get(id)!))];
    if (joined.length < 2 || !this.#isConvex(new Set(joined))) return;
    const [target, ...rest] = joined as [number, ...number[]];
    for (const cluster of rest) {
      for (const id of this.#members[cluster]!) this.#clusterOf.set(id, target);
      this.#members[target]!.push(...this.#members[cluster]!);
      this.#members[cluster] = [];
    }
  }

  #isConvex(inside: ReadonlySet<number>): boolean {
    const seen = new Set<number>();
    const queue = [...inside].flatMap((cluster) => this.#targets(cluster)).filter((cluster) => !inside.has(cluster));
    for (let cluster = queue.pop(); cluster !== undefined; cluster = queue.pop()) {
      if (inside.has(cluster)) return false;
      if (seen.has(cluster)) continue;
      seen.add(cluster);
      queue.push(...this.#targets(cluster));
    }
    return true;
  }

  #targets(cluster: number): number[] {
    const targets = this.#members[cluster]!.flatMap((id) => this.#feeds.get(id)!.map((to) => this.#clusterOf.get(to)!));
    return targets.filter((target) => target !== cluster);
  }

  clusters(): ResolvedNode[][] {
    const byCluster = new Map<number, ResolvedNode[]>();
    for (const node of this.#nodes) {
      const cluster = this.#clusterOf.get(node.id)!;
      byCluster.set(cluster, [...(byCluster.get(cluster) ?? []), node]);
    }
    return [...byCluster.values()];
  }
}
