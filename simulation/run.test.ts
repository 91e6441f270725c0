import assert from "node:assert/strict";
import { test } from "node:test";
import { sampleIndices } from "../src/data/order.ts";
import { undisturbed } from "./baselines.ts";
import { checkSamples } from "./checks/checkers.ts";
import { fleetOf } from "./draw.ts";
import { storeData } from "./maintainer.ts";
import { runSeed } from "./run.ts";
import { scenarios, sessionSeed } from "./scenarios.ts";
import { SimulatedBlobs } from "./world/blobs.ts";
import { SimulatedWorld } from "./world/world.ts";

test("where VNodes run, how often they are stored and how many execute them changes no root and no loss", async () => {
  for (const scenario of scenarios) {
    const alone = await undisturbed(scenario, fleetOf(1, 1), { checkpointEvery: 2, replicas: 1 });
    const spread = await undisturbed(
      scenario,
      fleetOf(4, 2),
      { checkpointEvery: 3, replicas: 2 },
      { vnodesPerPNode: 4 },
    );
    assert.equal(alone.roots.size, scenario.steps, `${scenario.name} has a root for every step`);
    assert.deepEqual(spread.roots, alone.roots, scenario.name);
    for (const [name, value] of spread.metrics)
      assert.equal(value, alone.metrics.get(name), `${scenario.name}: ${name}`);
  }
});

test("the same seed gives the same trace, event for event", async () => {
  for (const seed of [3, 4]) {
    const [first, second] = [await runSeed(seed), await runSeed(seed)];
    assert.equal(first.traceHash, second.traceHash);
    assert.equal(first.events, second.events);
  }
});

test("the samples of a session are used exactly once in each pass over the data", async () => {
  for (const { name, data, steps, batch } of scenarios) {
    const manifest = await storeData(data, new SimulatedBlobs(new SimulatedWorld(1)));
    const [samples, context] =
      data.kind === "tokens" ? [Math.floor((data.tokens - 1) / 3), 3] : [data.samples, undefined];
    const used = new Map<number, number[]>();
    for (let step = 0; step < steps; step++)
      used.set(
        step,
        sampleIndices({ manifest, split: "all", seed: sessionSeed, step, batch, ...(context && { context }) }),
      );
    assert.deepEqual(checkSamples(used, samples, batch), [], name);
  }
});
