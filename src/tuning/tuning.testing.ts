// Studies without machines: trials whose results are a formula, which arrive in any order.

import { type RandomKey, randomKey, uniformAt } from "../core/numbers/random.ts";
import { planStudy } from "./plan.ts";
import type { Settings } from "./space.ts";
import type { Study } from "./study.ts";
import type { NewTrial, Trial } from "./trial.ts";

export type Curve = (settings: Settings, step: number, trial: NewTrial) => number;

export interface Run {
  readonly trials: readonly Trial[];
  readonly stops: ReadonlyMap<number, string>;
  /** Steps that were trained in all. */
  readonly steps: number;
}

/** Each turn one trial that may train comes to where it may, whichever chance picks. */
export function runStudy(study: Study, curve: Curve, order = 1, fails: (trial: number) => boolean = () => false): Run {
  const key: RandomKey = randomKey("order", order);
  const trials = new Map<number, Trial>();
  const stops = new Map<number, string>();
  const born = new Map<number, NewTrial>();
  let steps = 0;
  for (let turn = 0; turn < 100_000; turn++) {
    const plan = planStudy(study, inAnyOrder([...trials.values()], randomKey("shuffle", order, turn)));
    if (plan.done) return { trials: [...trials.values()].sort((a, b) => a.number - b.number), stops, steps };
    for (const one of plan.create) {
      born.set(one.number, one);
      trials.set(one.number, { ...one, values: new Map(), failed: false, stopped: false });
    }
    for (const [number, reason] of plan.stop) {
      stops.set(number, reason);
      trials.set(number, { ...(trials.get(number) as Trial), stopped: true });
    }
    const able = [...plan.until];
    const [number, until] = able[Math.floor(uniformAt(key, turn) * able.length)] ?? [];
    if (number === undefined || until === undefined) continue;
    const trial = trials.get(number) as Trial;
    const values = new Map(trial.values);
    const from = Math.max(trial.parent?.step ?? 0, ...values.keys());
    steps += until - from;
    if (fails(number)) trials.set(number, { ...trial, failed: true });
    else {
      for (let at = from + study.least; at <= until; at += study.least)
        values.set(at, curve(trial.settings, at, born.get(number) as NewTrial));
      trials.set(number, { ...trial, values });
    }
  }
  throw new Error("the study does not end");
}

function inAnyOrder<T>(items: readonly T[], key: RandomKey): T[] {
  return items
    .map((item, index) => ({ item, at: uniformAt(key, index) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

export function tableOf({ trials, stops }: Run): unknown {
  return trials.map(({ number, settings, values, failed, parent }) => ({
    number,
    settings,
    values: [...values].sort(([a], [b]) => a - b),
    failed,
    parent,
    stop: stops.get(number),
  }));
}
