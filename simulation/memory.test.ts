// What a simulated world held is free again once it has ended, whatever its machines did and crashed hosts included; and a PNode that
// attaches again and again for weeks does not grow either.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expectationsOf } from "./baselines.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import { settingsOf } from "./run.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const worlds: readonly [number, RunOptions][] = [
  ...[1, 2, 3, 4].map((seed): [number, RunOptions] => [seed, {}]),
  [1, { routers: true }],
  [3, { autonomy: true }],
  [1, { byzantine: true }],
  [1, { answers: true }],
];

test("worlds that have ended are given back", async () => {
  const ended: WeakRef<NetworkRun>[] = [];
  for (const [seed, kind] of worlds) ended.push(await runToItsEnd(seed, kind));
  // What signals and registries hold goes in several rounds, with time of the event loop in between.
  for (let attempt = 0; attempt < 50 && ended.some((run) => run.deref()); attempt++) {
    // What was looked at stays for the rest of that turn.
    await pause(10);
    collectGarbage();
    await pause(10);
  }
  assert.deepEqual(
    worlds.filter((_, index) => ended[index]?.deref() !== undefined),
    [],
  );
});

async function runToItsEnd(seed: number, kind: RunOptions): Promise<WeakRef<NetworkRun>> {
  const settings = settingsOf(seed, kind);
  const run = new NetworkRun(seed, settings, await expectationsOf(settings), {});
  await run.finish();
  return new WeakRef(run);
}
