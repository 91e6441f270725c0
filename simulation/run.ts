// One seed: what it draws, run, and compared with what comes out undisturbed.

import { withAutonomy } from "./autonomy.ts";
import { expectationsOf } from "./baselines.ts";
import { drawRun } from "./draw.ts";
import { aimed } from "./faults.ts";
import { mutants } from "./mutants.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import type { SeedReport } from "./report.ts";

export async function runSeed(seed: number, options: RunOptions = {}): Promise<SeedReport> {
  const isAutonomous = options.autonomy ?? mutants[options.mutant ?? ""]?.autonomy ?? false;
  const drawn = isAutonomous ? withAutonomy(seed, drawRun(seed)) : drawRun(seed);
  const aims = options.aims ?? mutants[options.mutant ?? ""]?.aims ?? [];
  const settings = { ...drawn, plan: options.plan ?? aimed(drawn.plan, drawn.fleet, aims) };
  return new NetworkRun(seed, settings, await expectationsOf(settings), options).finish();
}
