import assert from "node:assert/strict";
import { test } from "node:test";
import { runSeed } from "../run.ts";

test("a machine that speaks for others is believed by nobody and changes no root", async () => {
  for (const seed of [1, 2, 3]) {
    const { violations } = await runSeed(seed, { liar: true });
    assert.deepEqual(violations, [], `seed ${seed}`);
  }
});
