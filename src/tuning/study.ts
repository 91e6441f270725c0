// A study as somebody asks for it: what is searched, by which search, who is stopped early and when. Checked and completed
// here; what follows from it is decided in plan.ts. Pure.

import { fail } from "../core/errors.ts";
import { written } from "../core/words/written.ts";
import { gridOf } from "./search.ts";
import { parseSpace, type Space } from "./space.ts";

export const searches = ["grid", "random", "tpe"] as const;
export const schedules = ["none", "halving", "hyperband", "asha", "median", "population"] as const;
/** Measured on the validation split; accuracy is better when it is more. */
export const metrics = ["validation_loss", "validation_accuracy"] as const;

export interface Study {
  readonly metric: (typeof metrics)[number];
  readonly search: (typeof searches)[number];
  readonly schedule: (typeof schedules)[number];
  readonly space: Space;
  readonly seed: number;
  /** How many were asked for at first, and how many each time that more were; each lot stands for itself. */
  readonly lots: readonly number[];
  /** Trials that train at the same time at most; tpe, median and what they decide depend on it. */
  readonly parallel: number;
  /** Steps after which a trial is first looked at; everything is decided at multiples of it. */
  readonly least: number;
  /** Steps of a whole training. */
  readonly most: number;
  /** Of so many, one goes on. */
  readonly factor: number;
}

export const trialsMax = 10_000;
const stepsMax = 100_000_000;
/** Looks at one trial: each is a validation. */
const looksMax = 1_000;
const parallelUsual = 8;
const factorUsual = 3;
const trialsUsual = 20;

type Given = Readonly<Record<string, unknown>>;
const known = ["metric", "search", "schedule", "space", "seed", "trials", "parallel", "steps", "every", "factor"];

/** Fails with a sentence about what is wrong. */
export function parseStudy(given: Given): Study {
  const odd = Object.keys(given).find((name) => !known.includes(name));
  if (odd !== undefined)
    fail("invalid_argument", `a study has no setting "${odd.slice(0, 40)}": there are ${known.join(", ")}`);
  const space = parseSpace(given["space"]);
  const schedule = choice(given, "schedule", schedules, "none");
  const search = choice(given, "search", searches, "random");
  const most = whole(given, "steps", undefined, 1, stepsMax);
  const least = whole(given, "every", schedule === "none" ? most : leastUsual(most), 1, most);
  if (most % least !== 0)
    fail(
      "invalid_argument",
      `steps is ${most}, no multiple of every, which is ${least}: ${nearest(most, least)} would be`,
    );
  if (most / least > looksMax)
    fail("invalid_argument", `${most / least} looks at each trial (steps / every): at most ${looksMax}`);
  if (schedule !== "none" && least === most)
    fail(
      "invalid_argument",
      `${schedule} looks at trials before they end: \`every\` must be less than \`steps\` (${most})`,
    );
  const factor = whole(given, "factor", factorUsual, 2, 10);
  const trials = trialsOf(given, { space, search, schedule, least, most, factor });
  if (schedule === "population") {
    if (search === "grid") fail("invalid_argument", "a population starts anywhere: search random or tpe");
    if (trials < 2) fail("invalid_argument", "a population has two trials at least");
  }
  return {
    metric: choice(given, "metric", metrics, "validation_loss"),
    search,
    schedule,
    space,
    seed: whole(given, "seed", 1, 0, Number.MAX_SAFE_INTEGER),
    lots: [trials],
    parallel: whole(given, "parallel", parallelUsual, 1, 1_000),
    least,
    most,
    factor,
  };
}

function trialsOf(
  given: Given,
  asked: Pick<Study, "space" | "search" | "schedule" | "least" | "most" | "factor">,
): number {
  if (asked.search === "grid") {
    const points = gridOf(asked.space).length;
    const trials = whole(given, "trials", points, 1, trialsMax);
    if (trials > points) fail("invalid_argument", `trials is ${trials}, and the grid has ${points} points`);
    return trials;
  }
  const usual = asked.schedule === "hyperband" ? roundOf(asked) : trialsUsual;
  return whole(given, "trials", usual, 1, trialsMax);
}

/** Trials of all of Hyperband's brackets once. */
function roundOf({ least, most, factor }: Pick<Study, "least" | "most" | "factor">): number {
  const depth = depthOf({ least, most, factor });
  let trials = 0;
  for (let left = depth; left >= 0; left--) trials += Math.ceil(((depth + 1) / (left + 1)) * factor ** left);
  return trials;
}

/** How often the least can be multiplied by the factor. */
export function depthOf({ least, most, factor }: Pick<Study, "least" | "most" | "factor">): number {
  let depth = 0;
  while (least * factor ** (depth + 1) <= most) depth++;
  return depth;
}

/** A ninth of the whole where that is a whole number of steps, else the largest part that is. */
function leastUsual(most: number): number {
  for (let parts = 9; parts > 1; parts--) if (most % parts === 0) return most / parts;
  return 1;
}

/** With more of them; a grid has only so many points. */
export function withMore(study: Study, more: number): Study {
  if (!Number.isSafeInteger(more) || more < 1)
    fail("invalid_argument", `${more} more trials: expected a whole number from 1`);
  if (study.schedule === "population")
    fail("failed_precondition", "a population lives and dies together: start another study with more trials");
  const trials = trialsIn(study);
  const limit = study.search === "grid" ? gridOf(study.space).length : trialsMax;
  if (trials + more > limit)
    fail("invalid_argument", `${trials} trials and ${more} more: this study has room for ${limit - trials} more`);
  return { ...study, lots: [...study.lots, more] };
}

export function trialsIn({ lots }: Pick<Study, "lots">): number {
  return lots.reduce((sum, lot) => sum + lot, 0);
}

function choice<T extends string>(given: Given, name: string, choices: readonly T[], usual: T): T {
  const value = given[name] ?? usual;
  const found = choices.find((one) => one === value);
  return found ?? fail("invalid_argument", `${name} "${written(value)}" is unknown: choose ${choices.join(", ")}`);
}

function whole(given: Given, name: string, usual: number | undefined, least: number, most: number): number {
  const value = given[name] ?? usual;
  if (value === undefined) fail("invalid_argument", `a study needs \`${name}\``);
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  return fail("invalid_argument", `${name} is ${written(value)}, expected a whole number from ${least} to ${most}`);
}

function nearest(value: number, unit: number): number {
  return Math.max(1, Math.round(value / unit)) * unit;
}
