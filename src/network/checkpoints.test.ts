import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type CheckpointTimes,
  checkpointAfter,
  checkpointBefore,
  checkpointDue,
  checkpointsBetween,
  intervalStepsMost,
} from "./checkpoints.ts";
import { isCommon } from "./rounds.ts";

/** All steps after which states are stored. */
function stepsOf(times: CheckpointTimes): number[] {
  return Array.from({ length: times.steps }, (_, before) => before + 1).filter((step) => checkpointDue(times, step));
}

const drawn: CheckpointTimes[] = [];
for (const steps of [9, 40, 61])
  for (const checkpointEvery of [1, 2, 7, 20])
    for (const every of [0, 1, 3, 10])
      for (const roundCheckpoints of [undefined, "ends"] as const)
        drawn.push({
          ...{ steps, checkpointEvery },
          ...(every > 0 && { sync: { every, after: 5 } }),
          ...(roundCheckpoints && { roundCheckpoints }),
        });
const long: CheckpointTimes = {
  ...{ steps: 9_000, checkpointEvery: 2, roundCheckpoints: "ends" },
  sync: { every: 2_500, after: 200 },
};

describe("states", () => {
  it("are stored every so many steps, and at the end", () => {
    assert.deepEqual(stepsOf({ steps: 9, checkpointEvery: 4 }), [4, 8, 9]);
    assert.deepEqual(stepsOf({ steps: 9, checkpointEvery: 4, sync: { every: 3, after: 1 } }), [4, 8, 9]);
  });

  it("are stored at the ends of rounds alone where nobody said how often: the first at the end of the steps together", () => {
    const times = { steps: 20, checkpointEvery: 2, sync: { every: 4, after: 5 }, roundCheckpoints: "ends" } as const;
    assert.deepEqual(stepsOf(times), [2, 4, 5, 10, 15, 20]);
    for (const step of stepsOf(times)) assert.ok(isCommon(times, step), `${step}`);
  });

  it("are stored when lanes are ready, too, where rounds close without late ones", () => {
    const times = { steps: 20, checkpointEvery: 20, sync: { every: 4, after: 5 }, elastic: "on" } as const;
    assert.deepEqual(stepsOf(times), [5, 9, 10, 14, 15, 19, 20]);
    assert.deepEqual(stepsOf({ ...times, roundCheckpoints: "ends" }), [5, 9, 10, 14, 15, 19, 20]);
  });

  it("are stored within rounds that are too long for a record of the store, in equal pieces", () => {
    assert.deepEqual(stepsOf(long).slice(100, 104), [200 + 834, 200 + 2 * 834, 200 + 2_501, 200 + 2_501 + 834]);
    assert.ok(stepsOf(long).every((step, at, all) => step - (all[at - 1] ?? 0) <= intervalStepsMost(long)));
  });

  it("are counted, found before and after any step, and never further apart than is said", () => {
    for (const times of [...drawn, long]) {
      const all = stepsOf(times);
      const what = JSON.stringify(times);
      for (let step = 0; step <= times.steps; step += times === long ? 7 : 1) {
        const before = all.filter((one) => one <= step);
        assert.equal(checkpointsBetween(times, 0, step), before.length, `${what} up to ${step}`);
        assert.equal(checkpointBefore(times, step), before.at(-1) ?? 0);
        assert.equal(checkpointAfter(times, step), all.find((one) => one > step) ?? times.steps);
      }
      assert.ok(
        all.every((step, at) => step - (all[at - 1] ?? 0) <= intervalStepsMost(times)),
        what,
      );
    }
  });
});
