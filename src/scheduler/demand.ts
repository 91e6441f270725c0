// What a plan needs of the fleet, without its names: enough to tell whether and when there is room for it.

import type { Demand } from "./jobs.ts";
import type { PlacementPlan } from "./placement/types.ts";
import { unitsOf } from "./placement/units.ts";

export function demandOf(plan: PlacementPlan): Demand {
  const units = unitsOf(plan, { avoid: new Map() }).units.map(({ memoryBytes }) => memoryBytes);
  return { ...demandOfMemory(units), vnodes: plan.vnodes.length };
}

/** Of units that each need so much memory. */
export function demandOfMemory(units: readonly number[]): Demand {
  const counts = new Map<number, number>();
  for (const memoryBytes of units) counts.set(memoryBytes, (counts.get(memoryBytes) ?? 0) + 1);
  const sorted = Array.from(counts, ([memoryBytes, count]) => ({ memoryBytes, count }));
  return { units: sorted.sort((a, b) => b.memoryBytes - a.memoryBytes), vnodes: units.length };
}
