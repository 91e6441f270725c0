// Units of placement: VNodes that must share a PNode, taken as one, in topological order.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { PlacementPlan, PlacementVNode, Policy } from "./types.ts";

export interface Unit {
  readonly index: number;
  readonly vnodes: readonly PlacementVNode[];
  readonly flops: number;
  readonly memoryBytes: number;
  readonly gpus: number;
  /** PNodes on which one of its VNodes failed, or cannot be. */
  readonly avoid: ReadonlySet<PNodeId>;
}

export interface UnitEdge {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

const nobody: ReadonlySet<PNodeId> = new Set();

export function unitsOf(
  plan: PlacementPlan,
  policy: Pick<Policy, "avoid" | "barred">,
): { units: Unit[]; unitOf: Map<VNodeId, number> } {
  const leader = new Map<VNodeId, VNodeId>();
  for (const group of plan.colocations) for (const vnode of group) leader.set(vnode, group[0] as VNodeId);
  const groups = new Map<VNodeId, PlacementVNode[]>();
  for (const vnode of plan.vnodes) {
    const first = leader.get(vnode.id) ?? vnode.id;
    const group = groups.get(first);
    if (group) group.push(vnode);
    else groups.set(first, [vnode]);
  }
  const unitOf = new Map<VNodeId, number>();
  const units = Array.from(groups.values(), (vnodes, index): Unit => {
    let flops = 0;
    let memoryBytes = 0;
    let gpus = 0;
    let avoid = nobody;
    for (const vnode of vnodes) {
      flops += vnode.flops;
      memoryBytes += vnode.memoryBytes;
      gpus += vnode.gpus;
      unitOf.set(vnode.id, index);
      const failed = policy.avoid.get(vnode.id);
      if (failed) avoid = new Set([...avoid, ...failed]);
      if (policy.barred?.vnodes.has(vnode.id)) avoid = new Set([...avoid, ...policy.barred.pnodes]);
    }
    return { index, vnodes, flops, memoryBytes, gpus, avoid };
  });
  return { units, unitOf };
}

/** Traffic between units, one entry for each pair. */
export function unitEdges(plan: PlacementPlan, unitOf: ReadonlyMap<VNodeId, number>): UnitEdge[] {
  const edges = new Map<string, UnitEdge>();
  for (const edge of plan.edges) {
    const from = unitOf.get(edge.from) as number;
    const to = unitOf.get(edge.to) as number;
    if (from === to) continue;
    const name = `${from}>${to}`;
    edges.set(name, { from, to, bytes: edge.bytes + (edges.get(name)?.bytes ?? 0) });
  }
  return Array.from(edges.values());
}
