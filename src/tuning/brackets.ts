// Successive halving and Hyperband: brackets of trials with rungs at which the better ones go on. Which trials are in which
// bracket, and where its rungs are, is known before anything runs; a rung decides when all of its trials have come to it. Pure.

import { depthOf, type Study } from "./study.ts";
import { byLoss } from "./tpe.ts";
import { lossAt, type Trial } from "./trial.ts";

export interface Bracket {
  /** Trials `first` to `first + size - 1`. */
  readonly first: number;
  readonly size: number;
  /** Steps, ascending; the last is the whole training. */
  readonly rungs: readonly number[];
}

export function bracketsOf(study: Study): readonly Bracket[] {
  const brackets: Bracket[] = [];
  const depth = depthOf(study);
  let first = 0;
  for (const lot of study.lots) {
    let left = lot;
    for (let index = 0; left > 0; index++) {
      // Hyperband: from many trials that are cut early to few that are left alone, and again.
      const cuts = study.schedule === "hyperband" ? depth - (index % (depth + 1)) : depth;
      const full = Math.ceil(((depth + 1) / (cuts + 1)) * study.factor ** cuts);
      const size = study.schedule === "hyperband" ? Math.min(left, full) : left;
      brackets.push({ first, size, rungs: rungsOf(study, cuts) });
      first += size;
      left -= size;
    }
  }
  return brackets;
}

function rungsOf({ least, most, factor }: Study, cuts: number): readonly number[] {
  const rungs = Array.from({ length: cuts + 1 }, (_, index) => {
    const steps = most / factor ** (cuts - index);
    return Math.max(1, Math.round(steps / least)) * least;
  });
  return [...new Set(rungs)];
}

/** How many of a bracket's trials train up to the rung with this index. */
export function keptAt({ size }: Bracket, factor: number, index: number): number {
  return Math.max(1, Math.floor(size / factor ** index));
}

export type Verdict = { readonly goesTo: number } | { readonly stops: string } | "waits" | "ended";

/** What becomes of each trial of a bracket that is there. */
export function halving(study: Study, bracket: Bracket, trials: ReadonlyMap<number, Trial>): Map<number, Verdict> {
  const verdicts = new Map<number, Verdict>();
  let alive = Array.from({ length: bracket.size }, (_, index) => bracket.first + index);
  for (const [index, steps] of bracket.rungs.entries()) {
    const losses = alive.map((number) => {
      const trial = trials.get(number);
      return { trial: number, loss: trial && lossAt(study, trial, steps) };
    });
    for (const { trial, loss } of losses) {
      if (loss === undefined) verdicts.set(trial, { goesTo: steps });
      else verdicts.set(trial, index === bracket.rungs.length - 1 ? "ended" : "waits");
    }
    if (losses.some(({ loss }) => loss === undefined)) return verdicts;
    if (index === bracket.rungs.length - 1) return verdicts;
    const ranked = losses.map(({ trial, loss }) => ({ trial, loss: loss as number })).sort(byLoss);
    const kept = ranked.slice(0, keptAt(bracket, study.factor, index + 1));
    const survivors = new Set(kept.filter(({ loss }) => !Number.isNaN(loss)).map(({ trial }) => trial));
    for (const [rank, { trial }] of ranked.entries())
      if (!survivors.has(trial))
        verdicts.set(trial, {
          stops: `number ${rank + 1} of ${ranked.length} after ${steps} steps, where ${survivors.size} go on`,
        });
    alive = alive.filter((number) => survivors.has(number));
    if (alive.length === 0) return verdicts;
  }
  return verdicts;
}
