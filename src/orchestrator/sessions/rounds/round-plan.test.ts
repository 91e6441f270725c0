import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SessionId } from "../../../core/ids.ts";
import { type Range, roundOf } from "../../../network/rounds.ts";
import type { ClosingRecord, RoundRecord } from "../../records/rounds.ts";
import { closingNow, planRound } from "./round-plan.ts";

const session = "s" as SessionId;
const identity = { steps: 1_000, lanes: 3, microbatches: 6, sync: { every: 10, after: 5 } };

function planned(rounds: readonly RoundRecord[], closings: readonly ClosingRecord[], speeds: readonly number[] = []) {
  const plan = rounds.at(-1);
  const lanes = [0, 1, 2].map((lane) => ({ lane, class: "one", speed: speeds[lane] }));
  const before = plan && { plan, plans: rounds, closings };
  return planRound({ session, identity, round: rounds.length, lanes, ...(before && { before }) });
}

function microbatches(ranges: readonly Range[]): number[] {
  return ranges.flatMap(([first, count]) => Array.from({ length: count }, (_, at) => first + at));
}

describe("the plan of a round", () => {
  test("gives lanes as many steps as they are fast, one at least, and all the same where they are nearly so", () => {
    const steps = (speeds: readonly number[]) => planned([], [], speeds).lanes.map((lane) => lane.steps);
    assert.deepEqual(steps([]), [10, 10, 10]);
    assert.deepEqual(steps([2, 1.8, 1]), [10, 10, 5]);
    assert.deepEqual(steps([1, 0.001, 0.3]), [10, 1, 3]);
  });

  test("begins where lanes stopped learning together, and goes on where the plan before ended", () => {
    const first = planned([], []);
    assert.deepEqual(
      first.lanes.map(({ samples }) => samples),
      [[[30, 20]], [[50, 20]], [[70, 20]]],
    );
    assert.equal(planned([first], []).lanes[0]?.samples[0]?.[0], first.next);
  });

  test("gives out what late lanes left before anything new, and every microbatch to one lane that counts", () => {
    const plans: RoundRecord[] = [];
    const closings: ClosingRecord[] = [];
    const counts = [[0, 1, 2], [1], [0, 2], [0], [0, 1, 2], [2], [1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]];
    for (const [round, counted] of counts.entries()) {
      plans.push(planned(plans, closings, [1, 0.5, 0.8]));
      closings.push({ session, round, counted });
    }
    const learned = plans.flatMap(({ lanes, round }) =>
      lanes.flatMap(({ lane, samples }) => (counts[round]?.includes(lane) ? microbatches(samples) : [])),
    );
    const { next, left } = plans.at(-1) as RoundRecord;
    const all = [...learned, ...microbatches(left)].sort((a, b) => a - b);
    assert.deepEqual(
      all,
      Array.from({ length: next - 30 }, (_, at) => 30 + at),
    );
    assert.deepEqual(left, [], "what was left is taken again");
  });

  test("of the last round has as many steps as are left", () => {
    const { first, last } = roundOf({ ...identity, steps: 20 }, 5);
    assert.deepEqual([first, last], [16, 19]);
  });
});

describe("a round", () => {
  const planned = [0, 1, 2, 3];
  const of = (ready: readonly number[], readyForMs: number) => ({
    planned,
    ready,
    tookMs: 60_000 - readyForMs,
    readyForMs,
  });

  test("closes at once when all are ready", () => {
    assert.deepEqual(closingNow(of([0, 1, 2, 3], 0)), planned);
  });

  test("waits for a late lane half as long as the first took, then closes without it", () => {
    assert.equal(closingNow(of([0, 1, 2], 15_000)), undefined);
    assert.deepEqual(closingNow(of([0, 1, 2], 30_000)), [0, 1, 2]);
    assert.deepEqual(closingNow({ ...of([1, 3], 10_000), tookMs: 2_000 }), [1, 3], "10 seconds at least");
    assert.equal(closingNow({ ...of([1, 3], 9_000), tookMs: 3_000 }), undefined);
  });

  test("never closes with less than half of its lanes", () => {
    assert.equal(closingNow(of([2], 59_000)), undefined);
    assert.equal(closingNow(of([], 59_000)), undefined);
  });
});
