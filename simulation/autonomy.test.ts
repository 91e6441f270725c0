import assert from "node:assert/strict";
import { test } from "node:test";
import { runSeed } from "./run.ts";

/** Few of them here: `npm run orphans` and longer runs of the simulator do the rest. */
const seeds = [10, 33, 60];

test("worlds without orchestrators train to the undisturbed roots", async () => {
  for (const seed of seeds) assert.deepEqual((await runSeed(seed, { autonomy: true })).violations, [], `seed ${seed}`);
});
