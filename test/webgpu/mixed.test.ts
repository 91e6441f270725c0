// A session whose lanes have classes of their own, on a process and on one with a GPU that is faster than its processor: a lane is on the
// GPU. The GPU is one in software, and both processors are said to be slow. The session goes on until it is so: how many rounds pass while
// a lane moves depends on the machine.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { measureMachine } from "../../src/cli/machine/measure-machine.ts";
import { measuredVariable, tellingMeasured } from "../../src/cli/machine/measured.ts";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { sleep } from "../../src/core/world.ts";
import type { ClosingRecord, RoundRecord } from "../../src/orchestrator/records/rounds.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import { openStateStore } from "../../src/store/open.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { readItem } from "../../src/store/records/update.ts";
import { realWorld } from "../../src/system/world.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { softwareGpus } from "./software-gpu.ts";

const world = realWorld();
const [gpu] = await softwareGpus();
/** Of a core, as both processes are told: less than any GPU. */
const gflops = 0.01;
/** More than pass within the time that tests have. */
const rounds = 100_000;

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
    // What the runner of tests has measured of this machine would count instead.
    delete process.env[measuredVariable];
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
    const [first] = (await attached(client, "gamer")).capabilities?.numerics ?? [];
    assert.equal(first?.engine, "webgpu", "the class in which it is fastest comes first");
    await client.networks.create(smallNetwork, { id: "small" });
    await addSamples(client, "pairs", smallSamples());
    const { id } = await client.sessions.create({
      ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 4, seed: 7n, lanes: 2 },
      ...{ numerics: "mixed", elastic: "on", assurance: "none", steps: BigInt(2 + 4 * rounds), checkpointEvery: 4 },
      ...{ syncEvery: 4, syncAfter: 2n, learningRate: { schedule: "constant", base: 0.01 } },
    });
    const counted = await firstRoundOnGpu(home, id);
    const session = await client.sessions.get(id);
    assert.equal(session.status, "running", session.reason);
    await client.close();
    assert.equal(counted.length, 2, `the lane of the processor counts beside it: ${counted.join()}`);
  } finally {
    await Promise.all(started.map((child) => stopChild(child, 3_000)));
    await rm(directory, { recursive: true, force: true });
  }
});

/** A machine warms its GPU up before it attaches. */
async function attached(client: Client, name: string) {
  for (;;) {
    const found = (await client.fleet.pnodes()).find((pnode) => pnode.name === name);
    if (found) return found;
    await sleep(world.timers, 50);
  }
}

/** The classes of the lanes that counted in the first round in which one on a GPU did. */
async function firstRoundOnGpu(directory: string, id: string): Promise<string[]> {
  const store = await openStateStore(`sqlite:${join(directory, "state.db")}`, { world });
  try {
    for (let round = 0; ; round++) {
      const closing = await closingOf(store, id, round);
      const plan = (await readItem<RoundRecord>(store, key.round(id, round)))?.record;
      const counted = (plan?.lanes ?? []).filter(({ lane }) => closing.counted.includes(lane));
      if (counted.some((one) => one.class.startsWith("webgpu-"))) return counted.map((one) => one.class);
    }
  } finally {
    await store.close();
  }
}

async function closingOf(store: StateStore, id: string, round: number): Promise<ClosingRecord> {
  for (;;) {
    const written = await readItem<ClosingRecord>(store, key.closing(id, round));
    if (written) return written.record;
    await sleep(world.timers, 50);
  }
}
