// One seed: what it draws, run, and compared with what comes out undisturbed.

import { withAutonomy } from "./autonomy.ts";
import { expectationsOf } from "./baselines.ts";
import { drawRun, type RunSettings } from "./draw.ts";
import { aimed, drawAims } from "./faults.ts";
import { drawByzantine } from "./lies/byzantine-draw.ts";
import { mutants } from "./mutants.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import type { SeedReport } from "./report.ts";

export async function runSeed(seed: number, options: RunOptions = {}): Promise<SeedReport> {
  const settings = settingsOf(seed, options);
  return new NetworkRun(seed, settings, await expectationsOf(settings), options).finish();
}

/** What a seed draws, with all its faults. */
export function settingsOf(seed: number, options: RunOptions = {}): RunSettings {
  const mutant = options.mutant === undefined ? undefined : mutants[options.mutant];
  const isAutonomous = options.autonomy ?? mutant?.autonomy ?? false;
  const isByzantine = options.byzantine ?? mutant?.byzantine ?? false;
  const hasLanes = options.lanes ?? mutant?.lanes ?? false;
  const drawnRun = () => drawRun(seed, hasLanes);
  const drawn = isByzantine ? drawByzantine(seed) : isAutonomous ? withAutonomy(seed, drawnRun()) : drawnRun();
  // A mutant shows by the faults that it asks for.
  const aims = options.aims ?? (options.mutant === undefined && !isByzantine ? drawAims(seed) : (mutant?.aims ?? []));
  // What is broken on purpose is not waited for as long as what may only be slow.
  const patience = options.mutant === undefined ? {} : { patienceMs: 0 };
  return { ...drawn, ...patience, plan: options.plan ?? aimed(drawn.plan, drawn.fleet, aims) };
}
