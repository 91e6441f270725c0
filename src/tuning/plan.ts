// What a study does next: which trials it makes, how far each trains, who stops. A pure function of the study and of its
// results: whoever asks again after a crash, or on another machine, gets the same answer.

import { type Bracket, bracketsOf, halving, type Verdict } from "./brackets.ts";
import { population } from "./population.ts";
import { gridOf, randomTrial } from "./search.ts";
import type { Settings } from "./space.ts";
import { type Study, trialsIn } from "./study.ts";
import { byLoss, type Outcome, tpeTrial } from "./tpe.ts";
import { isOpen, lossAt, type NewTrial, type Plan, reached, type Trial } from "./trial.ts";

/** Before so many results of one length a model would be guessing. */
const modelTrialsMin = 10;
/** Median stopping compares with so many earlier trials at least. */
const medianTrialsMin = 4;

export function planStudy(study: Study, trials: readonly Trial[]): Plan {
  const known = new Map(trials.map((trial) => [trial.number, trial]));
  const planned = study.schedule === "population" ? planPopulation(study, trials) : planTrials(study, known);
  const stop = new Map([...planned.stop].filter(([number]) => isRunnable(study, known.get(number))));
  const wanted = [...planned.until].filter(([number]) => isRunnable(study, known.get(number)) && !stop.has(number));
  const until = new Map(wanted.sort(([a], [b]) => a - b).slice(0, study.parallel));
  const done = planned.create.length === 0 && wanted.length === 0 && stop.size === 0 && allMade(study, trials);
  return { create: planned.create, until, stop, done };
}

type Planned = Pick<Plan, "create" | "until" | "stop">;

function isRunnable(study: Study, trial: Trial | undefined): boolean {
  return trial !== undefined && isOpen(study, trial);
}

function allMade(study: Study, trials: readonly Trial[]): boolean {
  const made = new Set(trials.map(({ number }) => number));
  return Array.from({ length: trialsIn(study) }, (_, number) => number).every((number) => made.has(number));
}

function planPopulation(study: Study, trials: readonly Trial[]): Planned {
  const size = study.lots[0] as number;
  const made = new Set(trials.map(({ number }) => number));
  const founders = Array.from({ length: size }, (_, number) => number).filter((number) => !made.has(number));
  if (founders.length === 0) return population(study, trials);
  const create = founders.map((number) => ({ number, settings: randomTrial(study.space, study.seed, number) }));
  return { create, until: new Map(), stop: new Map() };
}

function planTrials(study: Study, known: ReadonlyMap<number, Trial>): Planned {
  const verdicts = verdictsOf(study, known);
  const until = new Map<number, number>();
  const stop = new Map<number, string>();
  for (const [number, verdict] of verdicts) {
    if (typeof verdict !== "object" || !known.has(number)) continue;
    if ("goesTo" in verdict) until.set(number, verdict.goesTo);
    else stop.set(number, verdict.stops);
  }
  const underWay = [...until.keys()].filter(
    (number) => isRunnable(study, known.get(number)) && !stop.has(number),
  ).length;
  const create = newTrials(study, known, Math.max(0, study.parallel - underWay));
  return { create, until, stop };
}

function verdictsOf(study: Study, known: ReadonlyMap<number, Trial>): Map<number, Verdict> {
  switch (study.schedule) {
    case "halving":
    case "hyperband": {
      const all = bracketsOf(study).map((bracket) => halving(study, bracket, known));
      return new Map(all.flatMap((verdicts) => [...verdicts]));
    }
    case "asha":
      return asha(study, known);
    case "median":
      return median(study, known);
    default:
      return new Map([...known.keys()].map((number) => [number, { goesTo: study.most }]));
  }
}

/** Asynchronous: who is among the best so far goes on at once, so what is decided depends on who came first. */
function asha(study: Study, known: ReadonlyMap<number, Trial>): Map<number, Verdict> {
  const verdicts = new Map<number, Verdict>();
  const [bracket] = bracketsOf({ ...study, schedule: "halving", lots: [trialsIn(study)] }) as [Bracket];
  const { rungs } = bracket;
  const started = [...known.values()];
  for (const [index, steps] of rungs.entries()) {
    const there = started
      .map((trial) => ({ trial: trial.number, loss: lossAt(study, trial, steps) }))
      .filter((one): one is { trial: number; loss: number } => one.loss !== undefined)
      .sort(byLoss);
    const best = new Set(there.slice(0, Math.floor(there.length / study.factor)).map(({ trial }) => trial));
    const before = index === 0 ? undefined : (rungs[index - 1] as number);
    for (const trial of started) {
      const { number } = trial;
      if (lossAt(study, trial, steps) !== undefined) {
        const isLast = index === rungs.length - 1;
        verdicts.set(number, isLast ? "ended" : best.has(number) ? { goesTo: rungs[index + 1] as number } : "waits");
      } else if (before === undefined) verdicts.set(number, { goesTo: steps });
    }
  }
  const isRunning = ([number, verdict]: [number, Verdict]) =>
    typeof verdict === "object" && isRunnable(study, known.get(number));
  if (known.size < trialsIn(study) || [...verdicts].some(isRunning)) return verdicts;
  for (const [number, verdict] of verdicts)
    if (verdict === "waits") verdicts.set(number, { stops: "others were better as far as it came" });
  return verdicts;
}

/** Compared with trials of earlier batches alone, which have all ended: no trial waits for another in its batch. */
function median(study: Study, known: ReadonlyMap<number, Trial>): Map<number, Verdict> {
  const verdicts = new Map<number, Verdict>();
  for (const [number, trial] of known) {
    const earlier = [...known.values()].filter((other) => other.number < batchStart(study, number));
    const at = reached(trial);
    const average = averageUpTo(study, trial, at);
    const others = earlier.map((other) => averageUpTo(study, other, at)).filter((one) => one !== undefined);
    if (average !== undefined && others.length >= medianTrialsMin && isWorse(average, medianOf(others)))
      verdicts.set(number, { stops: `worse than the median of ${others.length} earlier trials after ${at} steps` });
    else verdicts.set(number, { goesTo: Math.min(study.most, at + study.least) });
  }
  return verdicts;
}

function isWorse(loss: number, than: number): boolean {
  return Number.isNaN(loss) || loss > than;
}

/** Of its losses at every look so far, so that one lucky look does not save it; undefined if it did not come there. */
function averageUpTo(study: Study, trial: Trial, step: number): number | undefined {
  if (step === 0 || !trial.values.has(step)) return undefined;
  const losses: number[] = [];
  for (let at = study.least; at <= step; at += study.least) losses.push(lossAt(study, trial, at) ?? Number.NaN);
  return losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
}

function medianOf(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return sorted.length === 0 ? Number.POSITIVE_INFINITY : (sorted[(sorted.length - 1) >> 1] as number);
}

/** The trials that are made next, in order of their numbers, as many as may train besides. */
function newTrials(study: Study, known: ReadonlyMap<number, Trial>, room: number): readonly NewTrial[] {
  const create: NewTrial[] = [];
  for (let number = 0; number < trialsIn(study) && create.length < room; number++) {
    if (known.has(number)) continue;
    const settings = settingsOf(study, known, number);
    // What it would learn from is not there yet.
    if (settings === undefined) break;
    create.push({ number, settings });
  }
  return create;
}

function settingsOf(study: Study, known: ReadonlyMap<number, Trial>, number: number): Settings | undefined {
  const start = batchStart(study, number);
  const waits = study.search === "tpe" || study.schedule === "median";
  const before = Array.from({ length: waits ? start : 0 }, (_, index) => known.get(index));
  // Asha's trials may stand still until the end of the study: what they have come to counts.
  const isSettled = (trial: Trial | undefined) =>
    trial !== undefined && (!isOpen(study, trial) || (study.schedule === "asha" && reached(trial) > 0));
  if (!before.every(isSettled)) return undefined;
  if (study.search === "grid") return gridOf(study.space)[number];
  if (study.search === "random") return randomTrial(study.space, study.seed, number);
  return tpeTrial(study.space, study.seed, number, outcomesOf(study, before as Trial[]));
}

/** A trial knows the results of the batches before its own: in a bracket all trials are one batch. */
function batchStart(study: Study, number: number): number {
  if (study.schedule === "halving" || study.schedule === "hyperband") {
    const bracket = bracketsOf(study).find(({ first, size }) => number >= first && number < first + size);
    return bracket?.first ?? 0;
  }
  return Math.floor(number / study.parallel) * study.parallel;
}

/** Results after equally many steps, as many steps as enough trials have come to. */
function outcomesOf(study: Study, trials: readonly Trial[]): readonly Outcome[] {
  const steps = [...new Set(trials.flatMap(({ values }) => [...values.keys()]))].sort((a, b) => b - a);
  const at = (step: number) =>
    trials.flatMap((trial): Outcome[] => {
      const loss = lossAt(study, trial, step);
      return loss === undefined ? [] : [{ trial: trial.number, settings: trial.settings, loss }];
    });
  const enough = steps.find((step) => at(step).filter(({ loss }) => !Number.isNaN(loss)).length >= modelTrialsMin);
  return enough === undefined ? [] : at(enough);
}
