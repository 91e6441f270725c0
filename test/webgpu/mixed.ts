// Not part of `npm test` yet: whether a lane has moved to the GPU when the session ends depends on how fast the machine is. Run it with
// `npm test test/webgpu/mixed.ts`.
// A session whose lanes have classes of their own, on a process and on one with a GPU that is faster than its processor: a lane is on the
// GPU. The GPU is one in software, and both processors are said to be slow.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { measureMachine } from "../../src/cli/machine/measure-machine.ts";
import { tellingMeasured } from "../../src/cli/machine/measured.ts";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import type { ClosingRecord, RoundRecord } from "../../src/orchestrator/records/rounds.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import { openStateStore } from "../../src/store/open.ts";
import { readItem } from "../../src/store/records/update.ts";
import { realWorld } from "../../src/system/world.ts";
import { ended, smallNetwork, smallSamples } from "../small-training.ts";
import { softwareGpus } from "./software-gpu.ts";

const [gpu] = await softwareGpus();
/** Of a core, as both processes are told: less than any GPU. */
const gflops = 0.01;
const rounds = 6;

test("a lane of a mixed session is on the GPU of a machine that is faster by it", {
  skip: gpu === undefined && "the packaged drivers are for Linux on x64",
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-mixed-"));
  const started: Child[] = [];
  try {
    const home = join(directory, "o");
    const orchestrator = await startChild("the orchestrator", [
      ...["orchestrator", "--listen", "127.0.0.1:0", "--dir", home],
    ]);
    started.push(orchestrator);
    const { classes: own } = await measureMachine();
    const told = await tellingMeasured(directory, async () => ({ classes: own, gflops }));
    const lend = (name: string, lent: string, environment: Readonly<Record<string, string>>) =>
      startChild(
        name,
        [
          ...["join", orchestrator.address, "--name", name, "--dir", join(directory, name), "--cpus", "1", "--wait"],
          ...["--gpu", lent],
        ],
        { ...told, ...environment },
      );
    started.push(await lend("plain", "off", {}));
    started.push(await lend("gamer", "any", { ...gpu?.environment, VK_LOADER_LAYERS_DISABLE: "*" }));
    const client = new Client(orchestrator.address, { fetch });
    await client.networks.create(smallNetwork, { id: "small" });
    await addSamples(client, "pairs", smallSamples());
    const { id } = await client.sessions.create({
      ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 4, seed: 7n, lanes: 2 },
      ...{ numerics: "mixed", elastic: "on", assurance: "none", steps: BigInt(2 + 4 * rounds), checkpointEvery: 4 },
      ...{ syncEvery: 4, syncAfter: 2n, learningRate: { schedule: "constant", base: 0.01 } },
    });
    const { status, reason } = await ended(client, id);
    assert.equal(status, "done", reason);
    const gamer = (await client.fleet.pnodes()).find(({ name }) => name === "gamer");
    assert.equal(gamer?.capabilities?.numerics[0]?.engine, "webgpu", "the class in which it is fastest comes first");
    await client.close();
    const classes = await classesThatCounted(home, id);
    assert.ok(
      classes.some((one) => one.startsWith("webgpu-")),
      classes.join(),
    );
  } finally {
    await Promise.all(started.map((child) => stopChild(child, 3_000)));
    await rm(directory, { recursive: true, force: true });
  }
});

async function classesThatCounted(directory: string, id: string): Promise<string[]> {
  const store = await openStateStore(`sqlite:${join(directory, "state.db")}`, { world: realWorld() });
  try {
    const classes: string[] = [];
    for (let round = 0; round < rounds; round++) {
      const plan = (await readItem<RoundRecord>(store, key.round(id, round)))?.record;
      const closing = (await readItem<ClosingRecord>(store, key.closing(id, round)))?.record;
      for (const one of plan?.lanes ?? []) if (closing?.counted.includes(one.lane)) classes.push(one.class);
    }
    return classes;
  } finally {
    await store.close();
  }
}
