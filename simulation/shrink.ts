// Finds out which faults of a failing seed matter: takes away as many as it can while the run still fails.
// What is left is the story of the bug.

import { type FaultPlan, noFaults, type TimedFault } from "./faults.ts";
import type { WorldKind } from "./pool.ts";
import type { SeedReport } from "./report.ts";
import { runSeed, settingsOf } from "./run.ts";

export interface Shrunk {
  readonly seed: number;
  /** Faults at set times that the seed drew. */
  readonly drawn: number;
  /** What is left of them, with the rates that matter. */
  readonly plan: FaultPlan;
  readonly report: SeedReport;
}

export interface ShrinkOptions {
  readonly mutant?: string;
  readonly kind?: WorldKind;
  /** Plans that are tried at most. */
  readonly runsMax?: number;
}

/** The smallest plan found that still fails; undefined if the seed holds. */
export async function shrink(seed: number, options: ShrinkOptions = {}): Promise<Shrunk | undefined> {
  const { mutant, kind, runsMax = 100 } = options;
  const world = { ...kind, ...(mutant === undefined ? {} : { mutant }) };
  const drawn = settingsOf(seed, world).plan;
  let plan = drawn;
  let runs = 0;
  let report: SeedReport | undefined;
  const fails = async (candidate: FaultPlan) => {
    if (runs++ >= runsMax) return false;
    const tried = await runSeed(seed, { ...world, plan: candidate });
    if (tried.violations.length === 0) return false;
    plan = candidate;
    report = tried;
    return true;
  };
  await fails(plan);
  if (report === undefined) return undefined;
  for (const rates of ["wire", "store", "blobs"] as const) await fails({ ...plan, [rates]: noFaults(seed)[rates] });
  for (let chunk = plan.timed.length; chunk >= 1; chunk = Math.floor(chunk / 2))
    for (let start = plan.timed.length - chunk; start >= 0; start -= chunk)
      await fails({ ...plan, timed: plan.timed.toSpliced(start, chunk) });
  return { seed, drawn: drawn.timed.length, plan, report };
}

/** The story, for people. */
export function tell({ seed, drawn, plan, report }: Shrunk): string[] {
  const rates = Object.entries({ ...plan.wire, ...plan.store, ...plan.blobs }).filter(
    ([name, rate]) => !name.endsWith("Ms") && rate > 0,
  );
  return [
    `seed ${seed} shortened: ${plan.timed.length} of its ${drawn} faults are enough, and ${rates.length} rates`,
    ...plan.timed.map(({ atMs, fault }) => `  ${(atMs / 1000).toFixed(3).padStart(8)} s  ${tellFault(fault)}`),
    ...rates.map(([name, rate]) => `  always: ${name} ${rate.toFixed(4)}`),
    ...report.violations
      .slice(0, 3)
      .map(({ kind, atMs, message }) => `  ends in ${kind} at ${(atMs / 1000).toFixed(3)} s: ${message}`),
  ];
}

function tellFault({ kind, ...details }: TimedFault): string {
  const shown = Object.entries(details).map(([name, value]) =>
    typeof value === "number" ? `${name} ${Math.round(value * 100) / 100}` : `${name} ${String(value)}`,
  );
  return [kind, ...shown].join(", ");
}
