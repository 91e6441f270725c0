// The model-based search finds the least of a function that it knows nothing of sooner than chance does. How it stands beside
// others' is measured by `npm run bench -- tuning`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { randomTrial } from "./search.ts";
import { parseSpace, type Settings } from "./space.ts";
import { byLoss, type Outcome, tpeTrial } from "./tpe.ts";

const space = parseSpace({ x: { uniform: [-1, 1] }, y: { uniform: [-1, 1] }, kind: { choice: ["a", "b", "c"] } });

function loss({ x, y, kind }: Settings): number {
  const along = (x as number) - 0.3;
  const across = (y as number) + (x as number);
  return along * along + 4 * across * across + (kind === "b" ? 0 : 0.2);
}

function best(next: typeof tpeTrial, seed: number): number {
  const outcomes: Outcome[] = [];
  for (let trial = 0; trial < 60; trial++) {
    const settings = next(space, seed, trial, outcomes);
    outcomes.push({ trial, settings, loss: loss(settings) });
  }
  return Math.min(...outcomes.map((one) => one.loss));
}

test("after sixty trials the model is at most a third as far from the least as chance, over ten seeds", () => {
  const seeds = Array.from({ length: 10 }, (_, seed) => seed);
  const middle = (values: number[]) => values.sort((a, b) => a - b)[5] as number;
  const modelled = middle(seeds.map((seed) => best(tpeTrial, seed)));
  const drawn = middle(seeds.map((seed) => best(randomTrial, seed)));
  assert.ok(modelled < drawn / 3, `${modelled} beside ${drawn}`);
});

test("the better comes first, then the earlier, and what came to nothing last", () => {
  const of = (trial: number, value: number) => ({ trial, loss: value });
  const sorted = [of(0, Number.NaN), of(1, 2), of(2, 1), of(3, 1), of(4, Number.POSITIVE_INFINITY), of(5, Number.NaN)];
  assert.deepEqual(
    sorted.sort(byLoss).map(({ trial }) => trial),
    [2, 3, 1, 4, 0, 5],
  );
});
