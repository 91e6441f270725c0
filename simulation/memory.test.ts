// What a simulated world held is free again once it has ended, crashed hosts included: ten thousand worlds fit into
// the memory of one, and a PNode that attaches again and again for weeks does not grow either.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expectationsOf } from "./baselines.ts";
import { drawRun } from "./draw.ts";
import { NetworkRun } from "./network-run.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("worlds that have ended are given back", async () => {
  const seeds = [1, 2, 3, 4, 5, 6];
  const ended: WeakRef<NetworkRun>[] = [];
  for (const seed of seeds) ended.push(await runToItsEnd(seed));
  // What signals and registries hold goes in several rounds, with time of the event loop in between.
  for (let attempt = 0; attempt < 50 && ended.some((run) => run.deref()); attempt++) {
    collectGarbage();
    await pause(10);
  }
  const kept = seeds.filter((_, index) => ended[index]?.deref() !== undefined);
  // The test runner's own tracking of promises may hold on to one of them.
  assert.ok(kept.length <= 1, `worlds ${kept.join(", ")} are still there`);
});

async function runToItsEnd(seed: number): Promise<WeakRef<NetworkRun>> {
  const settings = drawRun(seed);
  const run = new NetworkRun(seed, settings, await expectationsOf(settings), {});
  await run.finish();
  return new WeakRef(run);
}
