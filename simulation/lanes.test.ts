import assert from "node:assert/strict";
import { test } from "node:test";
import { baselineOf, undisturbed } from "./baselines.ts";
import { fleetOf } from "./draw.ts";
import { runSeed } from "./run.ts";
import { laned, rounds } from "./scenarios.ts";

/** Few: a fifth of the worlds of test/simulation.test.ts have lanes, and `dcnr simulate --lanes` runs more of these. */
const seeds = [1, 2, 3];

for (const scenario of [...laned, ...rounds]) {
  test(`${scenario.name}: eight machines come to the roots and losses of one`, async () => {
    const one = await baselineOf(scenario);
    assert.equal(one.roots.size, scenario.steps);
    const policy = { checkpointEvery: 2, replicas: 1 };
    const eight = await undisturbed(scenario, fleetOf(8, 1), policy, { vnodesPerPNode: 3 });
    assert.deepEqual(eight.roots, one.roots);
    assert.deepEqual(eight.metrics, one.metrics);
  });

  // Four lanes would show nothing else, and take four times as long.
  if (scenario.lanes !== 2) continue;
  test(`${scenario.name}: checking what is computed, and crews, change no bits of lanes`, async () => {
    const one = await baselineOf(scenario);
    for (const policy of [{ assurance: "checked" }, { autonomy: "on" }] as const) {
      const all = { checkpointEvery: 2, replicas: 1, ...policy };
      const { roots } = await undisturbed(scenario, fleetOf(5, 1), all, { vnodesPerPNode: 5 });
      assert.deepEqual(roots, one.roots, JSON.stringify(policy));
    }
  });
}

test("lanes come through kills, pauses, cuts and losses with the undisturbed roots", async () => {
  for (const seed of seeds) assert.deepEqual((await runSeed(seed, { lanes: true })).violations, [], `seed ${seed}`);
});

test("lanes that go on without orchestrators come to the undisturbed roots", async () => {
  for (const seed of seeds.slice(0, 1))
    assert.deepEqual((await runSeed(seed, { lanes: true, autonomy: true })).violations, [], `seed ${seed}`);
});
