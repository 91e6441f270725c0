import assert from "node:assert/strict";
import { test } from "node:test";
import { studies } from "./studies/studies.ts";

test("a study over real machines that are killed comes to the table and the winner of one that nobody disturbed", async (context) => {
  const { calm, stormy, kills } = await studies({
    ...{ pnodes: 3, orchestrators: 1, trials: 3, steps: 12, every: 4, killEveryMs: 2_000, seed: 3 },
    print: (line) => context.diagnostic(line),
  });
  assert.ok(kills > 0);
  assert.deepEqual(stormy, calm);
});
