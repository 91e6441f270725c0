import assert from "node:assert/strict";
import { test } from "node:test";
import { partition } from "./checks/rounds.ts";
import { runElastic } from "./elastic-rounds.ts";

test("lanes that come and go, are slow or late, come to what the records of their rounds lead to, each sample once", async () => {
  const seen = { late: 0, resting: 0, unequal: 0 };
  for (const seed of [1, 2, 3, 7, 12]) {
    const { violations, late, resting, unequal } = await runElastic(seed);
    assert.deepEqual(violations, [], `seed ${seed}`);
    seen.late += late;
    seen.resting += resting;
    seen.unequal += unequal;
  }
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, `${what}: ${count}`);
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
