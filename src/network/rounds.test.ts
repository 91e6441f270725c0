import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  equalRound,
  lanesAt,
  learnedBetween,
  learnedIn,
  lineFrom,
  placeIn,
  roundAt,
  roundCount,
  roundOf,
  type ToldRound,
} from "./rounds.ts";

const times = { steps: 40, lanes: 3, sync: { every: 5, after: 4 } };

describe("rounds", () => {
  test("have lanes learn from so many microbatches between any two steps as they do in each of these", () => {
    const settings = { ...times, microbatches: 6 };
    const rounds = new Map<number, ToldRound>([
      [
        0,
        { round: 0, lanes: [5, 3, 1].map((steps, lane) => ({ lane, steps, class: "", samples: [] })), counted: [0, 2] },
      ],
      [1, { round: 1, lanes: [{ lane: 1, steps: 2, class: "", samples: [] }] }],
    ]);
    const learnedAt = (step: number) => {
      const round = roundAt(settings, step);
      if (round === undefined) return 6;
      const { lanes, counted } = rounds.get(round.index) ?? equalRound(settings, round);
      const own = lanes.filter(({ lane }) => counted?.includes(lane) ?? true);
      return 2 * own.filter(({ steps }) => learnedIn(round, steps, step) !== undefined).length;
    };
    for (let from = 0; from <= settings.steps; from++)
      for (let to = from, sum = 0; to <= settings.steps; sum += learnedAt(to), to++)
        assert.equal(learnedBetween(settings, rounds, from, to), sum, `from ${from} to ${to}`);
  });

  test("follow each other without a gap, each with a step to learn in, whatever is left over at the end", () => {
    for (let steps = 6; steps < 60; steps++)
      for (let every = 1; every < 8; every++) {
        const all = { steps, sync: { every, after: 4 } };
        let next = 4;
        for (let index = 0; index < roundCount(all); index++) {
          const { first, last } = roundOf(all, index);
          assert.equal(first, next);
          assert.ok(last > first, `${steps} steps, rounds of ${every}: from ${first} to ${last}`);
          for (let step = first; step <= last; step++) assert.equal(roundAt(all, step)?.index, index);
          next = last + 1;
        }
        assert.equal(next, steps);
      }
  });

  test("have lanes learn in as many steps as are planned, in order and evenly spread, and never in the last one", () => {
    const round = { index: 0, first: 10, last: 17 };
    for (let steps = 1; steps <= 7; steps++) {
      const learned = Array.from({ length: 8 }, (_, at) => learnedIn(round, steps, 10 + at));
      assert.deepEqual(
        learned.filter((at) => at !== undefined),
        Array.from({ length: steps }, (_, at) => at),
      );
      assert.equal(learned[7], undefined);
    }
    assert.deepEqual(Array.from({ length: 8 }, (_, at) => learnedIn(round, 2, 10 + at) !== undefined).indexOf(true), 3);
  });

  test("of equal lanes use every microbatch after those of steps together, in the order of steps", () => {
    const settings = { lanes: 2, microbatches: 4 };
    const used = [0, 1].flatMap((index) => {
      const round = roundOf(times, index);
      return equalRound(settings, round).lanes.flatMap(({ samples }) =>
        Array.from({ length: 2 * (round.last - round.first) }, (_, at) => placeIn(samples, at)),
      );
    });
    assert.deepEqual(
      used.sort((a, b) => a - b),
      Array.from({ length: 2 * 5 * 4 }, (_, at) => 16 + at),
    );
  });
});

describe("the recovery line of lanes that come and go", () => {
  const plan = (round: number, lanes: readonly number[], counted?: readonly number[]): ToldRound => ({
    round,
    lanes: lanes.map((lane) => ({ lane, steps: 5, class: "", samples: [] })),
    ...(counted && { counted }),
  });
  const rounds = new Map([plan(0, [0, 1, 2], [0, 2]), plan(1, [0, 2])].map((one) => [one.round, one]));

  test("is made of all lanes before the first round, of those planned in one, and of those that count once it is closed", () => {
    assert.deepEqual(lanesAt(times, rounds, 4), [0, 1, 2]);
    assert.deepEqual(lanesAt(times, rounds, 7), [0, 2]);
    assert.deepEqual(lanesAt(times, rounds, 10), [0, 2]);
    assert.deepEqual(lanesAt(times, rounds, 12), [0, 2]);
    assert.equal(lanesAt(times, rounds, 16), undefined, "nobody knows who counts in the second round");
    assert.equal(lanesAt(times, rounds, 18), undefined, "the third round is not planned");
  });

  test("never passes the beginning of a round by, nor goes where a lane has no state", () => {
    const line = (stored: Readonly<Record<number, readonly number[]>>, from = 0) =>
      lineFrom(times, rounds, from, [4, 7, 9, 10, 12], (lane, step) => stored[lane]?.includes(step) ?? false);
    assert.equal(line({ 0: [4, 7], 1: [4], 2: [4, 7] }), 7);
    assert.equal(line({ 0: [4, 7, 10, 12], 1: [4], 2: [4, 7, 12] }), 7, "lane 2 has no state at the round's end");
    assert.equal(
      line({ 0: [7, 10, 12], 1: [], 2: [7, 10, 12] }),
      0,
      "not all have a state where the first round begins",
    );
    assert.equal(line({ 0: [4, 10, 12], 1: [4], 2: [4, 10, 12] }), 12);
  });
});
