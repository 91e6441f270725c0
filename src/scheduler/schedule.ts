// Which of the waiting workloads get room now, and where: a pure function of the fleet, with what is claimed of it, and
// of the queue. Each is placed on what those before it leave; a workload gets room for all that it lacks, or none.

import type { PNodeId, VNodeId } from "../core/ids.ts";
import type { Fleet } from "./placement/fleet.ts";
import { atOnce, type Pace, type Search, unhurried } from "./placement/pace.ts";
import type { Decision, Placement, PlacementPlan, Policy } from "./placement/types.ts";
import { placing } from "./placement.ts";

/** Room by PNode that is free and yet not to be used. */
export type Kept = ReadonlyMap<PNodeId, { readonly memoryBytes: number; readonly gpus: number }>;

export interface Waiting {
  readonly plan: PlacementPlan;
  readonly policy: Policy;
  readonly kept?: Kept;
}

export interface Scheduled extends Placement {
  /** VNodes that have to leave their places first: then there is room for all, their groups being together elsewhere. */
  readonly release?: readonly VNodeId[];
}

/** By workload; `queue` is in order of importance. The fleet is left as it is. */
export function schedule(fleet: Fleet, queue: readonly Waiting[]): Map<string, Scheduled> {
  return atOnce(scheduling(fleet, queue, unhurried()));
}

/** The same, with pauses. */
export function* scheduling(fleet: Fleet, queue: readonly Waiting[], pace: Pace): Search<Map<string, Scheduled>> {
  const placements = new Map<string, Scheduled>();
  let left = fleet;
  for (const [turn, { plan, policy, kept }] of queue.entries()) {
    const placement = yield* wholeOrNothing(plan, kept ? without(left, kept) : left, policy, pace);
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
export function* placingAnywhere(plan: PlacementPlan, fleet: Fleet, policy: Policy, pace: Pace): Search<Placement> {
  const placement = yield* placing(plan, fleet, policy, pace);
  if (!placement.unplaced.some(({ vnode }) => policy.avoid.has(vnode))) return placement;
  return yield* placing(plan, fleet, { ...policy, avoid: new Map() }, pace);
}

/** Two workloads that each held half of what they need would wait for each other for ever. */
function* wholeOrNothing(plan: PlacementPlan, fleet: Fleet, policy: Policy, pace: Pace): Search<Scheduled> {
  const placement = yield* placingAnywhere(plan, fleet, policy, pace);
  if (isWhole(placement)) return placement;
  const nothing = { ...placement, decisions: [] };
  const { torn } = placement;
  if (!torn) return nothing;
  const elsewhere = yield* placingAnywhere(plan, ...withoutThose(plan, fleet, policy, new Set(torn)), pace);
  return isWhole(elsewhere) ? { ...nothing, release: torn } : nothing;
}

function isWhole({ unplaced }: Placement): boolean {
  return !unplaced.some(({ copy }) => copy === 0);
}

/** Fleet and policy as if those VNodes had no place. */
function withoutThose(
  plan: PlacementPlan,
  fleet: Fleet,
  policy: Policy,
  vnodes: ReadonlySet<VNodeId>,
): [Fleet, Policy] {
  const free = fleet.copy();
  for (const { id, memoryBytes } of plan.vnodes)
    for (const pnode of vnodes.has(id) ? (policy.current.get(id) ?? []) : []) {
      const node = free.get(pnode);
      if (!node) continue;
      const hosted = (node.hosts.get(plan.workload) ?? 1) - 1;
      const hosts = new Map(node.hosts);
      if (hosted > 0) hosts.set(plan.workload, hosted);
      else hosts.delete(plan.workload);
      free.set({
        ...node,
        memoryFreeBytes: node.memoryFreeBytes + memoryBytes,
        gpusFree: node.gpusFree + (hosted > 0 ? 0 : policy.requirements.gpus),
        hosts,
      });
    }
  const current = new Map(Array.from(policy.current).filter(([id]) => !vnodes.has(id)));
  return [free, { ...policy, current }];
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
