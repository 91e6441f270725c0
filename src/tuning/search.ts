// Where to look next without a model: everything in order (grid), or anywhere (random). Pure; trial t of a study needs
// no trial before it.

import { fail } from "../core/errors.ts";
import { canonicalJson } from "../core/hash.ts";
import { randomKey } from "../core/numbers/random.ts";
import { drawnAt, numberAt, type Settings, type Space, settled, sizeOf, type Value } from "./space.ts";

/** Of numbers that are no whole numbers, in a grid. */
const gridPoints = 5;
export const gridMax = 10_000;

export function randomTrial(space: Space, seed: number, trial: number): Settings {
  return drawnAt(space, randomKey("tuning", seed, trial));
}

/** Every combination once, the last dimension changing fastest. */
export function gridOf(space: Space): readonly Settings[] {
  const axes = space.map((dimension): readonly Value[] => {
    if (dimension.kind === "choice") return dimension.values;
    const points = Math.min(gridPoints, sizeOf(dimension));
    if (points === 1) return [dimension.low];
    const at = (index: number) => {
      if (index === 0) return dimension.low;
      return index === points - 1 ? dimension.high : numberAt(dimension, index / (points - 1));
    };
    return [...new Set(Array.from({ length: points }, (_, index) => at(index)))];
  });
  const count = axes.reduce((product, { length }) => product * length, 1);
  if (count > gridMax)
    fail("invalid_argument", `a grid over this space has ${count} points, at most ${gridMax}: use random or tpe`);
  const found = new Map<string, Settings>();
  for (let index = 0; index < count; index++) {
    let rest = index;
    const chosen: Value[] = [];
    for (const axis of axes.toReversed()) {
      chosen.unshift(axis[rest % axis.length] as Value);
      rest = Math.floor(rest / axis.length);
    }
    const settings = settled(space, (_, dimension) => chosen[dimension] as Value);
    // Points that differ in nothing that counts are one.
    found.set(canonicalJson(settings), settings);
  }
  return [...found.values()];
}
