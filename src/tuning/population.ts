// Population-based training (Jaderberg et al. 2017): all train side by side; whenever all have come as far, the worst quarter
// is replaced by exact copies of the best quarter's states, with settings changed a little. A copy is a trial of its own,
// with the number after the last. Pure.

import { randomKey, uniformAt } from "../core/numbers/random.ts";
import { type Dimension, numberAt, type Settings, type Space, settled, unitOf, type Value, valueAt } from "./space.ts";
import type { Study } from "./study.ts";
import { byLoss } from "./tpe.ts";
import { lossAt, type NewTrial, type Plan, type Trial } from "./trial.ts";

/** Of a population, the share that is replaced and the share that is copied. */
const quarter = 0.25;
/** How often a setting is drawn anew instead of changed. */
const anewChance = 0.25;
/** Of the whole range, up or down. */
const change = 0.1;
/** Whoever copies a state keeps what that state was made for. */
const inherited = new Set(["network", "dataset", "initial_state", "seed"]);

/** `first`: the founders are there, all of them. */
export function population(study: Study, trials: readonly Trial[]): Pick<Plan, "create" | "until" | "stop"> {
  const byNumber = new Map(trials.map((trial) => [trial.number, trial]));
  const size = study.lots[0] as number;
  let members = Array.from({ length: size }, (_, index) => index);
  let next = size;
  const create: NewTrial[] = [];
  const until = new Map<number, number>();
  const stop = new Map<number, string>();
  for (let step = study.least; step <= study.most; step += study.least) {
    const losses = members.map((number) => {
      const trial = byNumber.get(number);
      return { trial: number, loss: trial && lossAt(study, trial, step) };
    });
    for (const { trial, loss } of losses) if (loss === undefined && byNumber.has(trial)) until.set(trial, step);
    if (losses.some(({ loss }) => loss === undefined) || step === study.most) break;
    const ranked = losses.map(({ trial, loss }) => ({ trial, loss: loss as number })).sort(byLoss);
    const living = ranked.filter(({ loss }) => !Number.isNaN(loss)).map(({ trial }) => trial);
    if (living.length === 0) break;
    const count = Math.max(1, Math.floor(size * quarter));
    const sources = living.slice(0, count);
    const worst = ranked.slice(-count).map(({ trial }) => trial);
    const replaced = ranked
      .filter(({ trial, loss }) => Number.isNaN(loss) || worst.includes(trial))
      .map(({ trial }) => trial);
    const isSource = new Set(sources);
    for (const member of replaced.sort((a, b) => a - b)) {
      if (isSource.has(member)) continue;
      const number = next++;
      const key = randomKey("population", study.seed, number);
      const source = sources[Math.floor(uniformAt(key, 0) * sources.length)] as number;
      stop.set(member, `replaced by trial ${number}, a copy of trial ${source}, after ${step} steps`);
      members = members.map((one) => (one === member ? number : one));
      if (byNumber.has(number)) continue;
      const { settings } = byNumber.get(source) as Trial;
      create.push({
        number,
        settings: changed(study.space, settings, number, study.seed),
        parent: { trial: source, step },
      });
    }
    // Copies are made before anybody goes on: a state is only there as long as its trial stands still.
    if (create.length > 0) break;
  }
  return { create, until: create.length > 0 ? new Map() : until, stop };
}

export function changed(space: Space, settings: Settings, trial: number, seed: number): Settings {
  const key = randomKey("change", seed, trial);
  return settled(space, (dimension, index) => {
    const before = settings[dimension.name];
    const anew = uniformAt(key, 3 * index);
    const drawn = uniformAt(key, 3 * index + 1);
    if (before === undefined) return valueAt(dimension, drawn);
    if (inherited.has(dimension.name)) return before;
    return anew < anewChance
      ? valueAt(dimension, drawn)
      : nudged(dimension, before, uniformAt(key, 3 * index + 2) < 0.5);
  });
}

function nudged(dimension: Dimension, before: Value, up: boolean): Value {
  if (dimension.kind === "choice") {
    const index = dimension.values.indexOf(before) + (up ? 1 : -1);
    return dimension.values[Math.min(dimension.values.length - 1, Math.max(0, index))] as Value;
  }
  const place = unitOf(dimension, before as number) + (up ? change : -change);
  const after = numberAt(dimension, Math.min(1, Math.max(0, place)));
  if (dimension.kind === "number" || after !== before) return after;
  return Math.min(dimension.high, Math.max(dimension.low, after + (up ? 1 : -1)));
}
