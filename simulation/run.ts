// One seed: what it draws, run, and compared with what comes out undisturbed.

import { withAutonomy } from "./autonomy.ts";
import { expectationsOf } from "./baselines.ts";
import { type CrewAim, crewWorld } from "./crew-worlds.ts";
import { drawRun, type RunSettings } from "./draw.ts";
import { runElastic } from "./elastic-rounds.ts";
import { brokenEraWorld } from "./eras.ts";
import { aimed, drawAims } from "./faults.ts";
import { drawAnswers } from "./lies/answers-draw.ts";
import { type CertainLies, drawByzantine } from "./lies/byzantine-draw.ts";
import { mutants } from "./mutants.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import type { SeedReport } from "./report.ts";
import { hasRouters, withRouters } from "./routers.ts";
import { toldNothingWorld } from "./told-nothing-world.ts";

export async function runSeed(seed: number, options: RunOptions = {}): Promise<SeedReport> {
  if (options.mutant !== undefined && mutants[options.mutant]?.eras) return brokenEraWorld(seed, options);
  if (options.mutant !== undefined && mutants[options.mutant]?.elastic) return runElastic(seed, options, "everybody");
  const settings = settingsOf(seed, options);
  return new NetworkRun(seed, settings, await expectationsOf(settings), options).finish();
}

/** What a seed draws, with all its faults. */
export function settingsOf(seed: number, options: RunOptions = {}): RunSettings {
  const mutant = options.mutant === undefined ? undefined : mutants[options.mutant];
  const crew = options.crew ?? mutant?.crew;
  const isByzantine = options.byzantine ?? mutant?.byzantine ?? false;
  const isAnswering = options.answers ?? mutant?.answers ?? false;
  const hasLanes = options.lanes ?? mutant?.lanes ?? false;
  const usual = drawn(seed, {
    crew,
    isByzantine,
    isAnswering,
    hasLanes,
    isToldNothing: mutant?.toldNothing ?? false,
    isAutonomous: options.autonomy ?? mutant?.autonomy ?? false,
    lies: mutant?.behaviour && {
      behaviour: mutant.behaviour,
      ...(mutant.assurance && { assurance: mutant.assurance }),
    },
  });
  const isUsual = options.mutant === undefined && !isByzantine && !isAnswering && crew === undefined;
  const isBehindRouters = options.routers ?? mutant?.routers ?? (isUsual && hasRouters(seed));
  const settings = isBehindRouters ? withRouters(seed, usual) : usual;
  // A mutant shows by the faults that it asks for.
  const aims = options.aims ?? (isUsual ? drawAims(seed) : (mutant?.aims ?? []));
  // What is broken on purpose is not waited for as long as what may only be slow.
  const patience = options.mutant === undefined || mutant?.behaviour !== undefined ? {} : { patienceMs: 0 };
  return { ...settings, ...patience, plan: options.plan ?? aimed(settings.plan, settings.fleet, aims) };
}

interface Kind {
  readonly crew: CrewAim | undefined;
  readonly isByzantine: boolean;
  readonly isAnswering: boolean;
  readonly isAutonomous: boolean;
  readonly hasLanes: boolean;
  readonly isToldNothing: boolean;
  readonly lies: CertainLies | undefined;
}

function drawn(seed: number, kind: Kind): RunSettings {
  const { crew, isByzantine, isAnswering, isAutonomous, hasLanes, isToldNothing, lies } = kind;
  if (isToldNothing) return toldNothingWorld(seed);
  if (crew !== undefined) return crewWorld(seed, crew);
  if (isAnswering) return drawAnswers(seed, lies?.behaviour);
  if (isByzantine) return drawByzantine(seed, lies, hasLanes);
  return isAutonomous ? withAutonomy(seed, drawRun(seed, hasLanes)) : drawRun(seed, hasLanes);
}
