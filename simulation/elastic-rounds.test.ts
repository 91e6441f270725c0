import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionId } from "../src/core/ids.ts";
import type { RoundRecord } from "../src/orchestrator/records/rounds.ts";
import { partition, RoundChecker } from "./checks/rounds.ts";
import { runElastic } from "./elastic-rounds.ts";

test("lanes that come and go, are slow or late, come to what the records of their rounds lead to, each sample once", async () => {
  const seen = { late: 0, resting: 0, unequal: 0 };
  for (const seed of [1, 14]) {
    const { violations, late, resting, unequal } = await runElastic(seed);
    assert.deepEqual(violations, [], `seed ${seed}`);
    seen.late += late;
    seen.resting += resting;
    seen.unequal += unequal;
  }
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, `${what}: ${count}`);
});

test("lanes on machines of several classes learn together, each round of each in the class of its plan", async () => {
  for (const seed of [2, 4]) {
    const { violations, classes } = await runElastic(seed, {}, "some");
    assert.deepEqual(violations, [], `seed ${seed}`);
    assert.ok(classes > 0, `seed ${seed} has rounds of several classes`);
  }
});

/**
 * Each failed once: in 117 the VNodes of all lanes were placed on machines of several classes between the last step together and the plan of the
 * first round, which then could name a class for none, and all waited for it for ever.
 */
test("worlds of several classes that failed once hold", async () => {
  for (const seed of [117]) assert.deepEqual((await runElastic(seed, {}, "some")).violations, [], `seed ${seed}`);
});

test("samples that are learned from twice, or by nobody, are noticed", () => {
  assert.deepEqual(
    partition(
      [
        [4, 2],
        [0, 4],
        [6, 1],
      ],
      0,
      7,
    ),
    [],
  );
  assert.match(
    partition(
      [
        [0, 4],
        [3, 2],
      ],
      0,
      5,
    )[0] ?? "",
    /microbatch 3 is learned from twice/,
  );
  assert.match(
    partition(
      [
        [0, 2],
        [3, 2],
      ],
      0,
      5,
    )[0] ?? "",
    /microbatches 2 to 2 are learned from by nobody/,
  );
  assert.match(partition([[0, 2]], 0, 5)[0] ?? "", /end at 2 instead of 5/);
});

test("records of rounds that are written again, closed before they are planned, or forget samples are noticed", () => {
  const session = "s" as SessionId;
  const plan = (round: number, next: number, collected: number): RoundRecord => ({
    ...{ session, round, next, left: [], collected },
    lanes: [0, 1].map((lane) => ({ lane, steps: 1, class: "", samples: [[4 * round + 2 * lane, 2]] })),
  });
  const problems = (write: (checker: RoundChecker) => void) => {
    const found: string[] = [];
    const checker = new RoundChecker((message) => found.push(message));
    write(checker);
    checker.finish(0);
    return found.join("; ");
  };
  const closing = (round: number, counted: readonly number[]) => ({ session, round, counted });
  const both = (collected: number) => (checker: RoundChecker) => {
    checker.wrote("round", plan(0, 4, 0));
    checker.wrote("closing", closing(0, [0]));
    checker.wrote("round", plan(1, 8, collected));
  };
  assert.equal(problems(both(0)), "", "what lane 1 left waits");
  assert.match(problems(both(1)), /microbatches 2 to 3 are learned from by nobody/);
  assert.match(
    problems((checker) => checker.wrote("closing", closing(0, [0]))),
    /round 0 closes before it is planned/,
  );
  const again = (checker: RoundChecker) => {
    both(0)(checker);
    checker.wrote("closing", closing(0, [0, 1]));
  };
  assert.match(problems(again), /the closing record of round 0 was written again/);
});
