// Which of the waiting workloads get room now, and where: a pure function of the fleet, with what is claimed of it, and
// of the queue. Each is placed on what those before it leave; a workload gets room for all that it lacks, or none.

import type { PNodeId } from "../core/ids.ts";
import type { Fleet } from "./placement/fleet.ts";
import type { Decision, Placement, PlacementPlan, Policy } from "./placement/types.ts";
import { place } from "./placement.ts";

/** Room by PNode that is free and yet not to be used. */
export type Kept = ReadonlyMap<PNodeId, { readonly memoryBytes: number; readonly gpus: number }>;

export interface Waiting {
  readonly plan: PlacementPlan;
  readonly policy: Policy;
  readonly kept?: Kept;
}

/** By workload; `queue` is in order of importance. The fleet is left as it is. */
export function schedule(fleet: Fleet, queue: readonly Waiting[]): Map<string, Placement> {
  const placements = new Map<string, Placement>();
  let left = fleet;
  for (const [turn, { plan, policy, kept }] of queue.entries()) {
    const placement = wholeOrNothing(placeAnywhere(plan, kept ? without(left, kept) : left, policy));
    placements.set(plan.workload, placement);
    if (placement.decisions.length === 0 || turn === queue.length - 1) continue;
    if (left === fleet) left = fleet.copy();
    reserve(left, plan, policy, placement.decisions);
  }
  return placements;
}

function without(fleet: Fleet, kept: Kept): Fleet {
  if (kept.size === 0) return fleet;
  const less = fleet.copy();
  for (const [pnode, { memoryBytes, gpus }] of kept) {
    const node = less.get(pnode);
    if (!node) continue;
    less.set({
      ...node,
      memoryFreeBytes: node.memoryFreeBytes - memoryBytes,
      gpusFree: Math.max(0, node.gpusFree - gpus),
    });
  }
  return less;
}

/** Where a VNode failed is better than nowhere: it may have been the moment, and a few failures end the workload. */
export function placeAnywhere(plan: PlacementPlan, fleet: Fleet, policy: Policy): Placement {
  const placement = place(plan, fleet, policy);
  if (!placement.unplaced.some(({ vnode }) => policy.avoid.has(vnode))) return placement;
  return place(plan, fleet, { ...policy, avoid: new Map() });
}

/** Two workloads that each held half of what they need would wait for each other for ever. */
function wholeOrNothing(placement: Placement): Placement {
  return placement.unplaced.some(({ copy }) => copy === 0) ? { ...placement, decisions: [] } : placement;
}

function reserve(fleet: Fleet, plan: PlacementPlan, policy: Policy, decisions: readonly Decision[]): void {
  const memoryOf = new Map(plan.vnodes.map((vnode) => [vnode.id, vnode.memoryBytes]));
  for (const [pnode, own] of Map.groupBy(decisions, (decision): PNodeId => decision.pnode)) {
    const node = fleet.get(pnode);
    if (!node) continue;
    const memoryBytes = own.reduce((sum, { vnode }) => sum + (memoryOf.get(vnode) ?? 0), 0);
    const known = node.hosts.get(plan.workload) ?? 0;
    fleet.set({
      ...node,
      memoryFreeBytes: node.memoryFreeBytes - memoryBytes,
      gpusFree: node.gpusFree - (known > 0 ? 0 : policy.requirements.gpus),
      hosts: new Map(node.hosts).set(plan.workload, known + own.length),
    });
  }
}
