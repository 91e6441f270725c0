// The tree of Parzen estimators (Bergstra et al. 2011): two densities over the space, one of the settings that did well and
// one of the others; of some candidates drawn from the first the one is taken at which it is highest beside the second. The
// kernels are products over all dimensions, so that what goes well together is drawn together. Pure: the draws of a trial are its own.

import { cos, erf, exp, log } from "../core/numbers/math.ts";
import { type RandomKey, randomKey, uniformAt } from "../core/numbers/random.ts";
import { randomTrial } from "./search.ts";
import { type Dimension, isActive, numberAt, type Settings, type Space, settled, unitOf, type Value } from "./space.ts";

export interface Outcome {
  readonly trial: number;
  readonly settings: Settings;
  /** Less is better; NaN where nothing came out. */
  readonly loss: number;
}

/** Before so many results nothing is known: anywhere is as good. */
const startupTrials = 10;
const candidates = 24;
const goodMost = 25;
/** So many of the newest count fully; older ones less and less. */
const freshTrials = 25;

export function tpeTrial(space: Space, seed: number, trial: number, outcomes: readonly Outcome[]): Settings {
  if (outcomes.length < startupTrials) return randomTrial(space, seed, trial);
  const ranked = [...outcomes].sort(byLoss);
  const goodCount = Math.min(goodMost, Math.ceil(outcomes.length / 10));
  const inTime = (some: readonly Outcome[]) => some.toSorted((a, b) => a.trial - b.trial);
  const good = new Density(space, inTime(ranked.slice(0, goodCount)));
  const others = new Density(space, inTime(ranked.slice(goodCount)));
  const key = randomKey("tpe", seed, trial);
  let best: readonly number[] = [];
  let bestGain = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < candidates; index++) {
    const candidate = good.draw(key, index * (2 * space.length + 1));
    const active = activeOf(space, candidate);
    const gain = good.logAt(candidate, active) - others.logAt(candidate, active);
    if (gain > bestGain || index === 0) {
      bestGain = gain;
      best = candidate;
    }
  }
  return settingsAt(space, best);
}

/** Best first; what failed last; ties to the earlier trial. */
export function byLoss(a: Pick<Outcome, "loss" | "trial">, b: Pick<Outcome, "loss" | "trial">): number {
  const aFailed = Number.isNaN(a.loss);
  const bFailed = Number.isNaN(b.loss);
  if (aFailed !== bFailed) return aFailed ? 1 : -1;
  if (!aFailed && a.loss !== b.loss) return a.loss < b.loss ? -1 : 1;
  return a.trial - b.trial;
}

/** A point has, by dimension, a place in [0, 1], or the index of a choice. */
function settingsAt(space: Space, point: readonly number[]): Settings {
  return settled(space, (dimension, index) => placedValue(dimension, point[index] as number));
}

function placedValue(dimension: Dimension, at: number): Value {
  return dimension.kind === "choice" ? (dimension.values[at] as Value) : numberAt(dimension, at);
}

function activeOf(space: Space, point: readonly number[]): readonly boolean[] {
  const settings = settingsAt(space, point);
  return space.map((dimension) => isActive(dimension, settings));
}

/** Of one dimension in one kernel; undefined: the trial did not have it, so it says nothing about it. */
type Kernel = { readonly at: number; readonly width: number } | undefined;

/** A mixture: one kernel for each trial, and one over everything. */
class Density {
  readonly #space: Space;
  /** By trial, then by dimension. */
  readonly #kernels: readonly (readonly Kernel[])[];
  readonly #weights: readonly number[];

  constructor(space: Space, outcomes: readonly Outcome[]) {
    this.#space = space;
    const byDimension = space.map((dimension) => kernelsOf(dimension, outcomes));
    this.#kernels = [...outcomes.keys()].map((index) => byDimension.map((kernels) => kernels[index]));
    const weights = [...weightsOf(outcomes.length), 1];
    const sum = weights.reduce((total, weight) => total + weight, 0);
    this.#weights = weights.map((weight) => weight / sum);
  }

  /** Uses draws from `from` on: one for the kernel, two for each dimension. */
  draw(key: RandomKey, from: number): readonly number[] {
    let left = uniformAt(key, from);
    let index = 0;
    while (index < this.#kernels.length && left >= (this.#weights[index] as number)) {
      left -= this.#weights[index] as number;
      index++;
    }
    const kernels = this.#kernels[index];
    return this.#space.map((dimension, at) => {
      const first = uniformAt(key, from + 1 + 2 * at);
      const second = uniformAt(key, from + 2 + 2 * at);
      if (dimension.kind === "choice") return this.#drawChoice(dimension.values.length, kernels?.[at], first);
      const { at: middle, width } = kernels?.[at] ?? everywhere;
      return truncated(middle, width, first, second);
    });
  }

  #drawChoice(count: number, kernel: Kernel, unit: number): number {
    let left = unit;
    for (let index = 0; index < count; index++) {
      left -= this.#chanceOf(index, count, kernel);
      if (left < 0) return index;
    }
    return count - 1;
  }

  /** Each kernel leaves some chance to the other choices, less the more is known. */
  #chanceOf(index: number, count: number, kernel: Kernel): number {
    if (!kernel) return 1 / count;
    const others = 1 / (this.#kernels.length + 1);
    return ((kernel.at === index ? 1 : 0) + others) / (1 + others * count);
  }

  logAt(point: readonly number[], active: readonly boolean[]): number {
    const logs = this.#weights.map(
      (weight, index) => log(weight) + this.#logKernel(this.#kernels[index], point, active),
    );
    const most = Math.max(...logs);
    return most + log(logs.reduce((sum, one) => sum + exp(one - most), 0));
  }

  #logKernel(kernels: readonly Kernel[] | undefined, point: readonly number[], active: readonly boolean[]): number {
    let sum = 0;
    this.#space.forEach((dimension, at) => {
      if (!active[at]) return;
      const place = point[at] as number;
      if (dimension.kind === "choice") {
        sum += log(this.#chanceOf(place, dimension.values.length, kernels?.[at]));
        return;
      }
      const { at: middle, width } = kernels?.[at] ?? everywhere;
      sum += logBell(dimension, place, middle, width);
    });
    return sum;
  }
}

const everywhere = { at: 0.5, width: 1 };

function kernelsOf(dimension: Dimension, outcomes: readonly Outcome[]): readonly Kernel[] {
  const places = outcomes.map(({ settings }) => {
    const value = settings[dimension.name];
    if (value === undefined) return undefined;
    return dimension.kind === "choice" ? dimension.values.indexOf(value) : unitOf(dimension, value as number);
  });
  if (dimension.kind === "choice") return places.map((at) => (at === undefined ? undefined : { at, width: 0 }));
  const widths = widthsOf(places.filter((at) => at !== undefined));
  let next = 0;
  return places.map((at) => (at === undefined ? undefined : { at, width: widths[next++] as number }));
}

/** Each bell reaches as far as its farther neighbour; those at the ends as far as their only one. */
function widthsOf(places: readonly number[]): readonly number[] {
  const order = [...places.keys()].sort((a, b) => (places[a] as number) - (places[b] as number) || a - b);
  const least = 1 / Math.min(100, places.length + 2);
  const widths = new Array<number>(places.length);
  order.forEach((index, rank) => {
    const at = places[index] as number;
    const below = places[order[rank - 1] as number];
    const above = places[order[rank + 1] as number];
    const gaps = [below === undefined ? undefined : at - below, above === undefined ? undefined : above - at];
    const known = gaps.filter((gap) => gap !== undefined);
    const reach = known.length > 0 ? Math.max(...known) : Math.max(at, 1 - at);
    widths[index] = Math.min(1, Math.max(least, reach));
  });
  return widths;
}

function weightsOf(count: number): readonly number[] {
  const old = count - freshTrials;
  return Array.from({ length: count }, (_, index) => {
    if (index >= old) return 1;
    return old === 1 ? 1 / count : 1 / count + ((1 - 1 / count) * index) / (old - 1);
  });
}

/** A normal number within [0, 1]: drawn again, from what is left of the two draws, while it lies outside. */
function truncated(middle: number, width: number, first: number, second: number): number {
  const again = randomKey("bell", first, second);
  for (let index = 0; index < 1_000; index++) {
    const radius = Math.sqrt(-2 * log(1 - uniformAt(again, 2 * index)));
    const place = middle + width * radius * cos(2 * Math.PI * uniformAt(again, 2 * index + 1));
    if (place >= 0 && place <= 1) return place;
  }
  return middle;
}

/** Of a number's place the density, of a whole number's the chance: of all that rounds to it. */
function logBell(
  dimension: Exclude<Dimension, { kind: "choice" }>,
  place: number,
  middle: number,
  width: number,
): number {
  const inside = mass((1 - middle) / width) - mass(-middle / width);
  if (dimension.kind === "number") {
    const distance = (place - middle) / width;
    return -0.5 * distance * distance - log(width * 2.5066282746310002 * inside);
  }
  const value = numberAt(dimension, place);
  const from = unitOf(dimension, Math.max(dimension.low - 0.5, value - 0.5));
  const to = unitOf(dimension, Math.min(dimension.high + 0.5, value + 0.5));
  return log(Math.max(1e-300, (mass((to - middle) / width) - mass((from - middle) / width)) / inside));
}

/** Of a standard normal below z. */
function mass(z: number): number {
  return 0.5 * (1 + erf(z * Math.SQRT1_2));
}
