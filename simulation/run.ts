// One seed: what it draws, run, and compared with what comes out undisturbed.

import { expectationsOf } from "./baselines.ts";
import { drawRun } from "./draw.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import type { SeedReport } from "./report.ts";

export async function runSeed(seed: number, options: RunOptions = {}): Promise<SeedReport> {
  const drawn = drawRun(seed);
  const settings = options.plan ? { ...drawn, plan: options.plan } : drawn;
  return new NetworkRun(seed, settings, await expectationsOf(settings), options).finish();
}
