// What is known of a trial, and what is decided about it. Whatever is decided follows from the study and from results by the
// number of the trial and the step, never from when they arrived (asha alone excepted). Pure.

import type { Settings } from "./space.ts";
import type { Study } from "./study.ts";

export interface Trial {
  readonly number: number;
  readonly settings: Settings;
  /** The metric after so many steps; NaN where the training came to no number. */
  readonly values: ReadonlyMap<number, number>;
  /** It came to nothing: whatever it has no value for counts as the worst. */
  readonly failed: boolean;
  /** It was decided that it does not go on. */
  readonly stopped: boolean;
  /** It began as a copy of this trial's state after `step` steps. */
  readonly parent?: { readonly trial: number; readonly step: number };
}

export interface NewTrial {
  readonly number: number;
  readonly settings: Settings;
  readonly parent?: { readonly trial: number; readonly step: number };
}

export interface Plan {
  /** In order of their numbers; those before the first of them are there already. */
  readonly create: readonly NewTrial[];
  /** Steps up to which a trial is to train now, by trial. */
  readonly until: ReadonlyMap<number, number>;
  /** Trials that do not go on, and why. */
  readonly stop: ReadonlyMap<number, string>;
  /** Nothing is left to do. */
  readonly done: boolean;
}

/** Less is better. */
export function lossOf({ metric }: Pick<Study, "metric">, value: number): number {
  return metric === "validation_accuracy" ? -value : value;
}

/** NaN for one that failed before; undefined if it has yet to come there. */
export function lossAt(study: Pick<Study, "metric">, { values, failed }: Trial, step: number): number | undefined {
  const value = values.get(step);
  if (value !== undefined) return lossOf(study, value);
  return failed ? Number.NaN : undefined;
}

/** The last step that it has a value for; 0 if none. */
export function reached({ values }: Pick<Trial, "values">): number {
  return Math.max(0, ...values.keys());
}

/** Neither stopped nor failed, and not at its end. */
export function isOpen({ most }: Pick<Study, "most">, trial: Trial): boolean {
  return !trial.stopped && !trial.failed && reached(trial) < most;
}

/** Of those that trained longest; undefined before anything is known. */
export function bestOf(study: Pick<Study, "metric">, trials: readonly Trial[]): Trial | undefined {
  const longest = Math.max(0, ...trials.map(reached));
  let best: Trial | undefined;
  let bestLoss = Number.POSITIVE_INFINITY;
  for (const trial of trials) {
    const value = longest > 0 ? trial.values.get(longest) : undefined;
    if (value === undefined || Number.isNaN(value)) continue;
    const loss = lossOf(study, value);
    if (best === undefined || loss < bestLoss || (loss === bestLoss && trial.number < best.number)) {
      best = trial;
      bestLoss = loss;
    }
  }
  return best;
}
