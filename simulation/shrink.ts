// Finds out which faults of a failing seed matter: takes away as many as it can while the run still fails.
// What is left is the story of the bug.

import { type FaultPlan, noFaults } from "./faults.ts";
import type { SeedReport } from "./report.ts";
import { drawRun, runSeed } from "./run.ts";

export interface Shrunk {
  readonly plan: FaultPlan;
  readonly report: SeedReport;
}

/** Tries at most `runsMax` plans; returns the smallest one that still fails, with its readable trace. */
export async function shrink(seed: number, runsMax = 200): Promise<Shrunk | undefined> {
  let plan = drawRun(seed).plan;
  let runs = 0;
  const fails = async (candidate: FaultPlan) =>
    runs++ < runsMax && (await runSeed(seed, { plan: candidate })).violations.length > 0;
  if (!(await fails(plan))) return undefined;
  for (const rates of ["wire", "store", "blobs"] as const) {
    const calmer = { ...plan, [rates]: noFaults(seed)[rates] };
    if (await fails(calmer)) plan = calmer;
  }
  for (let chunk = plan.timed.length; chunk >= 1; chunk = Math.floor(chunk / 2))
    for (let start = plan.timed.length - chunk; start >= 0; start -= chunk) {
      const fewer = { ...plan, timed: plan.timed.toSpliced(start, chunk) };
      if (await fails(fewer)) plan = fewer;
    }
  return { plan, report: await runSeed(seed, { plan, readable: true }) };
}
