// An owner pauses a machine that works: its parts go to another machine, the training goes on, and it gets work again.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { addSamples } from "../../src/client/samples.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { dcnr, withNetwork } from "./world.ts";

const patienceMs = 90_000;

test("dcnr lend pause takes a machine's work away without stopping the training, dcnr lend resume opens it again", async () => {
  await withNetwork(2, async ({ client, local, directory }) => {
    const { id: network } = await client.networks.create(smallNetwork, { id: "small" });
    await addSamples(client, "pairs", smallSamples());
    const settings = { network, dataset: "pairs", split: "all", batch: 8, microbatches: 2, numerics: "portable" };
    const session = await client.sessions.create({ ...settings, steps: 1_000_000n, seed: 1n, checkpointEvery: 5 });
    const until = async (what: string, holds: () => Promise<boolean>) => {
      const endMs = performance.now() + patienceMs;
      while (!(await holds())) {
        assert.ok(performance.now() < endMs, `not within ${patienceMs / 1000} s: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    };
    const hosts = async () => new Set((await client.fleet.vnodes(session.id)).map(({ pnode }) => pnode));
    await until("it learns", async () => (await client.sessions.get(session.id)).step > 5n);
    const working = await hosts();
    const worker = local.pnodes.find(({ id }) => working.has(id));
    assert.ok(worker);
    const folder = join(directory, "pnodes", worker.name);
    assert.match((await dcnr(["lend", "pause", "--dir", folder])).out, /^paused/);
    await until("its work is elsewhere", async () => !(await hosts()).has(worker.id));
    const { step } = await client.sessions.get(session.id);
    await until("the others go on", async () => (await client.sessions.get(session.id)).step > step + 5n);
    const kinds = async () => (await client.fleet.events()).map(({ kind }) => kind);
    assert.ok((await kinds()).includes("pnode.closed"));
    assert.ok(!(await kinds()).includes("pnode.lost"), "nobody takes it for lost");
    assert.match((await dcnr(["lend", "resume", "--dir", folder])).out, /is lent/);
    await until("it is open again", async () => (await kinds()).includes("pnode.open"));
  });
});
