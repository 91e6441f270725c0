import assert from "node:assert/strict";
import { test } from "node:test";
import { chaos } from "./chaos/chaos.ts";
import { percentile, recoveryMs } from "./chaos/measure.ts";

test("ten and more signals to random processes change no bit of a reduced T1", async (context) => {
  const report = await chaos({
    orchestrators: 3,
    pnodes: 8,
    steps: 40,
    intervalMs: 2_500,
    kills: 10,
    durationMs: 0,
    seed: 3,
    print: (line) => context.diagnostic(line),
  });
  assert.ok(report.kills + report.stops >= 10);
  assert.ok(report.kills > 0 && report.stops > 0, "both kinds of signals were sent");
  assert.deepEqual(report.wrongRoots, []);
});

test("signals to random processes change no bit of four lanes on eight machines, half of their steps apart", async (context) => {
  const report = await chaos({
    orchestrators: 2,
    pnodes: 8,
    // Half a lane each.
    memory: "300MB",
    steps: 30,
    intervalMs: 5_000,
    kills: 4,
    durationMs: 0,
    seed: 5,
    lanes: { lanes: 4, syncEvery: 5, syncAfter: 15n },
    print: (line) => context.diagnostic(line),
  });
  assert.ok(report.kills > 0);
  assert.deepEqual(report.wrongRoots, []);
});

test("recovery lasts from the kill to the second step after it", () => {
  const log = [
    { atMs: 0, step: 1 },
    { atMs: 100, step: 2 },
    { atMs: 200, step: 3 },
    { atMs: 1_700, step: 4 },
  ];
  assert.equal(recoveryMs(150, log), 1_550);
  assert.equal(recoveryMs(1_800, log), undefined);
});

test("a percentile is one of the values", () => {
  assert.equal(percentile([5, 1, 3], 0.5), 3);
  assert.equal(percentile([5, 1, 3], 0.99), 5);
});
