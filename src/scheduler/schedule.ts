// Which of the waiting workloads get room now, and where: a pure function of the fleet, with what is claimed of it, and
// of the queue. Each is placed on what those before it leave; a workload gets room for all that it lacks, or none.

import type { PNodeId } from "../core/ids.ts";
import type { Fleet } from "./placement/fleet.ts";
import { atOnce, type Pace, type Search, unhurried } from "./placement/pace.ts";
import { placingParts } from "./placement/parts.ts";
import { reserve, withoutThose } from "./placement/reserve.ts";
import type { Placement, PlacementPlan, Policy, Scheduled } from "./placement/types.ts";
import { placing } from "./placement.ts";

/** Room by PNode that is free and yet not to be used. */
export type Kept = ReadonlyMap<PNodeId, { readonly memoryBytes: number; readonly gpus: number }>;

export interface Waiting {
  readonly plan: PlacementPlan;
  readonly policy: Policy;
  readonly kept?: Kept;
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

/**
 * Where a VNode failed is better than nowhere: it may have been the moment, and a few failures end the workload. A further copy that finds no place is no
 * reason to go back there.
 */
export function* placingAnywhere(plan: PlacementPlan, fleet: Fleet, policy: Policy, pace: Pace): Search<Placement> {
  if (plan.parts !== undefined) return yield* placingParts(plan, plan.parts, fleet, policy, placingAnywhere, pace);
  const placement = yield* placing(plan, fleet, policy, pace);
  if (!placement.unplaced.some(({ vnode, copy }) => copy === 0 && policy.avoid.has(vnode))) return placement;
  return yield* placing(plan, fleet, { ...policy, avoid: new Map() }, pace);
}

/** Two workloads that each held half of what they need would wait for each other for ever. */
function* wholeOrNothing(plan: PlacementPlan, fleet: Fleet, policy: Policy, pace: Pace): Search<Scheduled> {
  if (plan.parts !== undefined) return yield* placingParts(plan, plan.parts, fleet, policy, wholeOrNothing, pace);
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
