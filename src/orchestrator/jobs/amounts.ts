// What a job is charged while it runs: what it asks of each PNode that takes part, and the memory of all its VNodes.

import type { Amounts } from "../../scheduler/quota.ts";
import type { JobRecord } from "../records/jobs.ts";

/** Before it was placed nobody knows how many PNodes take part: one at least. */
export function amountsOf(
  {
    requirements,
    demand,
    copies = 1,
    coordinates,
  }: Pick<JobRecord, "requirements" | "demand" | "copies" | "coordinates">,
  pnodes = 1,
): Amounts {
  const memoryBytes = demand?.units.reduce((sum, unit) => sum + unit.memoryBytes * unit.count, 0) ?? 0;
  const machines = demand ? Math.max(1, pnodes) : 0;
  return {
    cores: Math.max(1, requirements.cpus) * machines,
    gpus: requirements.gpus * machines,
    memoryBytes: memoryBytes * copies,
    jobs: coordinates ? 0 : 1,
  };
}
