// Studies run to their end with results that arrive in any order: the same table whatever the order, and the rules of each
// schedule counted by hand.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bracketsOf } from "./brackets.ts";
import type { Settings } from "./space.ts";
import { parseStudy, withMore } from "./study.ts";
import { bestOf, reached, type Trial } from "./trial.ts";
import { type Curve, runStudy, tableOf } from "./tuning.testing.ts";

const space = { rate: { "log-uniform": [1e-4, 1] }, batch: { choice: [8, 16, 32] } };
/** Best at a rate of 0.01; early values mislead a little. */
const curve: Curve = ({ rate, batch }: Settings, step: number) => {
  const off = Math.log10(rate as number) + 2;
  return off * off + (batch as number) / 1000 + 3 * Math.exp(-step / 30) * (1 + Math.abs(off));
};
const orders = [1, 2, 3, 4, 5];
const bySteps = (trials: readonly Trial[], steps: number) => trials.filter((trial) => reached(trial) >= steps).length;

describe("a study", () => {
  for (const given of [
    { search: "random" },
    { search: "grid" },
    { search: "tpe", trials: 30, parallel: 3 },
    { schedule: "halving", trials: 27, every: 10 },
    { schedule: "hyperband", every: 10 },
    { schedule: "hyperband", every: 10, trials: 40, search: "tpe", parallel: 4 },
    { schedule: "median", trials: 20, parallel: 5, every: 10 },
    { schedule: "population", trials: 8, every: 30 },
  ]) {
    const study = parseStudy({ steps: 90, space, ...given });
    it(`with ${JSON.stringify(given)} comes to the same table whatever came first`, () => {
      const tables = orders.map((order) => tableOf(runStudy(study, curve, order)));
      for (const table of tables.slice(1)) assert.deepEqual(table, tables[0]);
    });
    it(`with ${JSON.stringify(given)} ends although trials fail`, () => {
      const fails = (trial: number) => trial % 3 === 0;
      const tables = orders.slice(0, 2).map((order) => tableOf(runStudy(study, curve, order, fails)));
      assert.deepEqual(tables[1], tables[0]);
      const all = runStudy(study, curve, 1, () => true);
      assert.equal(bestOf(study, all.trials), undefined);
    });
  }

  it("by halving lets a third go on at each rung", () => {
    const study = parseStudy({ steps: 270, every: 10, schedule: "halving", trials: 27, space });
    const { trials, steps } = runStudy(study, curve);
    assert.deepEqual(
      [10, 30, 90, 270].map((step) => bySteps(trials, step)),
      [27, 9, 3, 1],
    );
    assert.equal(steps, 27 * 10 + 9 * 20 + 3 * 60 + 1 * 180);
    const ranked = trials.toSorted((a, b) => (a.values.get(10) as number) - (b.values.get(10) as number));
    const promoted = ranked.slice(0, 9).map(({ number }) => number);
    assert.deepEqual(
      trials.filter((trial) => reached(trial) >= 30).map(({ number }) => number),
      promoted.toSorted((a, b) => a - b),
    );
  });

  it("by Hyperband has brackets from many short trials to few long ones, and each lot of more trials its own", () => {
    const study = parseStudy({ steps: 90, every: 10, schedule: "hyperband", space });
    assert.deepEqual(
      bracketsOf(study).map(({ first, size, rungs }) => [first, size, ...rungs]),
      [
        [0, 9, 10, 30, 90],
        [9, 5, 30, 90],
        [14, 3, 90],
      ],
    );
    const more = withMore(study, 10);
    assert.deepEqual(
      bracketsOf(more)
        .slice(3)
        .map(({ first, size }) => [first, size]),
      [
        [17, 9],
        [26, 1],
      ],
    );
    const before = tableOf(runStudy(study, curve)) as unknown[];
    assert.deepEqual((tableOf(runStudy(more, curve)) as unknown[]).slice(0, 17), before);
  });

  it("by asha ends with few trained to the end, in any order", () => {
    const study = parseStudy({ steps: 90, every: 10, schedule: "asha", trials: 30, parallel: 4, space });
    for (const order of orders) {
      const { trials, stops } = runStudy(study, curve, order);
      const whole = bySteps(trials, 90);
      assert.ok(whole >= 1 && whole <= 10, `${whole} were trained to the end`);
      assert.equal(whole + stops.size, 30);
      assert.ok(bySteps(trials, 30) <= 15);
    }
  });

  it("by the median stops what is worse than most before it", () => {
    const study = parseStudy({ steps: 90, every: 10, schedule: "median", trials: 24, parallel: 4, space });
    const { trials, stops } = runStudy(study, curve);
    assert.equal(
      [...stops.keys()].filter((number) => number < 4).length,
      0,
      "there is nothing to compare the first with",
    );
    assert.ok(stops.size >= 6 && stops.size <= 18, `${stops.size} were stopped`);
    assert.ok(!stops.has((bestOf(study, trials) as Trial).number));
  });

  it("of a population copies the best over the worst, and keeps its size", () => {
    const study = parseStudy({ steps: 90, every: 30, schedule: "population", trials: 8, space });
    const { trials, stops } = runStudy(study, curve);
    assert.equal(trials.length, 8 + 2 * 2, "two of eight are replaced at each of two looks");
    for (const { number, parent } of trials.slice(8)) {
      const source = trials[parent?.trial as number] as Trial;
      const step = parent?.step as number;
      const alive = trials.filter(({ values, parent: own }) => values.has(step) && (own?.step ?? 0) < step);
      const better = alive.filter(({ values }) => (values.get(step) as number) < (source.values.get(step) as number));
      assert.ok(better.length < 2, `trial ${number} copies one of the two best`);
    }
    assert.equal(bySteps(trials, 90), 8);
    assert.equal(stops.size, 4);
  });

  it("names the best of those that trained longest, ties to the smaller number", () => {
    const study = parseStudy({ steps: 10, space });
    const trial = (number: number, values: [number, number][]) =>
      ({ number, settings: {}, values: new Map(values), failed: false, stopped: false }) satisfies Trial;
    const some = [trial(0, [[5, 0.1]]), trial(1, [[10, 0.7]]), trial(2, [[10, 0.5]]), trial(3, [[10, 0.5]])];
    assert.equal(bestOf(study, [...some, trial(4, [[10, Number.NaN]])])?.number, 2);
    assert.equal(bestOf({ metric: "validation_accuracy" }, some)?.number, 1);
  });

  it("is refused with a sentence where it makes no sense", () => {
    const wrong = (given: object, sentence: RegExp) =>
      assert.throws(() => parseStudy({ steps: 90, space, ...given }), sentence);
    wrong({ steps: undefined }, /needs `steps`/);
    wrong({ steps: 0 }, /steps is 0, expected a whole number from 1/);
    wrong({ every: 40 }, /steps is 90, no multiple of every, which is 40: 80 would be/);
    wrong({ schedule: "hyperband", every: 90 }, /`every` must be less than `steps`/);
    wrong({ schedule: "sometimes" }, /schedule "sometimes" is unknown: choose none, halving/);
    wrong({ metric: "beauty" }, /metric "beauty" is unknown/);
    wrong({ trails: 3 }, /no setting "trails"/);
    wrong({ trials: -1 }, /trials is -1/);
    wrong({ search: "grid", trials: 100 }, /the grid has 15 points/);
    wrong({ schedule: "population", trials: 1, every: 30 }, /two trials at least/);
    wrong({ space: {} }, /needs `space`/);
    assert.throws(() => withMore(parseStudy({ steps: 90, space, search: "grid" }), 1), /room for 0 more/);
  });
});
