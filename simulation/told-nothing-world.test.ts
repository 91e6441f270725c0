import assert from "node:assert/strict";
import { test } from "node:test";
import { expectationsOf } from "./baselines.ts";
import { NetworkRun } from "./network-run.ts";
import { toldNothingWorld } from "./told-nothing-world.ts";

test("a PNode that does not hear that half of a session is another's stops when its first record is refused", async () => {
  const settings = toldNothingWorld(1);
  const { violations, trace = "" } = await new NetworkRun(1, settings, await expectationsOf(settings), {
    readable: true,
  }).finish();
  assert.deepEqual(violations, []);
  assert.match(trace, /moving \d+ VNodes uses 2 PNodes instead of 1/);
  assert.match(trace, /another owner has taken over: stopping/);
});
