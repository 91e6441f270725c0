// Clusters signal twice: a PNode that gets SIGTERM while it hands over goes on handing over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { withNetwork } from "../e2e/world.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { until } from "./scenario.ts";

test("a PNode that gets SIGTERM several times still hands its VNodes over and leaves", () =>
  withNetwork(2, async ({ client, local }) => {
    assert.ok(client instanceof Client);
    await client.networks.create(smallNetwork, { id: "small" });
    await addSamples(client, "pairs", smallSamples());
    const { id } = await client.sessions.create({
      ...{
        network: "small",
        dataset: "pairs",
        split: "all",
        batch: 8,
        microbatches: 2,
        seed: 1n,
        numerics: "portable",
      },
      ...{ steps: 100_000n, checkpointEvery: 50, spread: 2, learningRate: { schedule: "constant", base: 0.01 } },
    });
    await until("it trains", async () => (await client.sessions.get(id)).step > 20n);
    const [first] = local.pnodes as [(typeof local.pnodes)[number]];
    for (let signal = 0; signal < 3; signal++) first.kill("SIGTERM");
    assert.equal(await first.ended, 0, "it ended as one that was not hurried");
    await until("it is seen as left, not as lost", async () =>
      (await client.fleet.pnodes()).some(({ id: own, status }) => own === first.id && status === "left"),
    );
    const before = (await client.sessions.get(id)).step;
    await until("the other one goes on", async () => (await client.sessions.get(id)).step > before);
    await client.sessions.suspend(id);
  }));
