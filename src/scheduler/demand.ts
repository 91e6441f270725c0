// What a plan needs of the fleet, without its names: enough to tell whether and when there is room for it.

import type { Demand } from "./jobs.ts";
import type { PlacementPlan } from "./placement/types.ts";
import { unitsOf } from "./placement/units.ts";

export function demandOf(plan: PlacementPlan): Demand {
  const counts = new Map<number, number>();
  for (const { memoryBytes } of unitsOf(plan, { avoid: new Map() }).units)
    counts.set(memoryBytes, (counts.get(memoryBytes) ?? 0) + 1);
  const units = Array.from(counts, ([memoryBytes, count]) => ({ memoryBytes, count }));
  return { units: units.sort((a, b) => b.memoryBytes - a.memoryBytes), vnodes: plan.vnodes.length };
}
