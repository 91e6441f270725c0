// Real processes of which two lie, or one errs: they are found, named and sent away, what was built on their results is computed again, and
// the result is the honest one. Whoever doubts it repeats it from the blobs.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { LocalNetwork } from "../../src/cli/machine/local-network.ts";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { dcnr } from "../e2e/world.ts";
import { ended, smallNetwork, smallSamples } from "../small-training.ts";
import { fromSources } from "./from-sources.ts";

const settings: SessionSettingsInit = {
  ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "native" },
  ...{ steps: 12n, checkpointEvery: 4, learningRate: { schedule: "constant", base: 0.01 } },
};

const honestMachines = 6;

interface Scene {
  readonly client: Client;
  readonly directory: string;
  /** Machines of owners of their own; `hook` is loaded before everything else. */
  enter(names: readonly string[], hook?: string): Promise<void>;
}

async function withMachines(run: (scene: Scene) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-liars-"));
  const options = { listen: "127.0.0.1:0", pnodes: 0, cpusPerPNode: 1, logLevel: "error" };
  const local = await LocalNetwork.start({ ...options, directory });
  const { address, key } = local.orchestrator;
  const machines: Child[] = [];
  const enterOne = async (name: string, hook: string | undefined) => {
    const at = key === undefined ? address : withKey(address, key);
    const own = ["--name", name, "--owner", name, "--dir", join(directory, name), "--cpus", "1", "--unconfined"];
    const flags = hook === undefined ? [] : ["--import", join(import.meta.dirname, hook)];
    const given = { environment: hook === undefined ? process.env : fromSources, flags };
    machines.push(await startChild(name, ["join", at, ...own, "--log-level", "error", "--wait"], {}, given));
  };
  const enter: Scene["enter"] = async (names, hook) => {
    // One after the other: all at once they would keep a small machine from answering anybody.
    for (const name of names) await enterOne(name, hook);
  };
  const client = new Client(address, { fetch });
  try {
    await run({ client, directory, enter });
  } finally {
    await client.close();
    await Promise.all(machines.map((child) => stopChild(child, 3_000)));
    await local.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

/** A session that is checked from its beginning, by those who come when its first machines have trained for a while. */
async function checkedBy({ client, enter }: Scene, others: readonly string[], meanwhile = async () => {}) {
  await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
  const checked = await client.sessions.create({ ...settings, spread: 2, assurance: "checked" });
  await until("the first machines have trained", async () => (await client.sessions.get(checked.id)).line > 0n);
  await assert.rejects(client.sessions.states(checked.id), /nothing of session .* is final yet/);
  await enter(others);
  await meanwhile();
  const session = await ended(client, checked.id);
  assert.equal(session.status, "done", session.reason);
  assert.equal(session.final, 12n);
  assert.match(session.certificate, /^checked; final up to step 12: .* 0 % by nobody$/);
  const alone = await client.sessions.create({ ...settings, assurance: "none" });
  const honest = await ended(client, alone.id);
  assert.equal(session.stepRoot, honest.stepRoot, "the root of honest machines");
}

test(
  "two of eight machines lie: they are found, and the session comes to the root of honest ones",
  {
    timeout: 280_000,
  },
  () =>
    withMachines(async (scene) => {
      const { client, directory, enter } = scene;
      await enter(["liar-1", "liar-2"], "lying.ts");
      const faultOfALiar = async () => (await client.trust.standings()).flatMap(({ faults }) => faults)[0];
      await checkedBy(scene, namesOf(honestMachines), async () => {
        // While others compute and state the same interval again.
        await until("a liar is found", async () => (await faultOfALiar()) !== undefined);
        await assertWrong((await faultOfALiar())?.command ?? "", directory);
      });
      const standings = await client.trust.standings();
      const liars = standings.filter(({ name }) => name.startsWith("liar"));
      assert.deepEqual(
        liars.map(({ standing, faults }) => [standing, faults[0]?.kind]),
        [
          ["quarantined", "lie"],
          ["quarantined", "lie"],
        ],
      );
      for (const one of standings) if (one.name.startsWith("honest")) assert.deepEqual(one.faults, [], one.name);

      // Anybody who has the store and the blobs repeats what was found, without any process of the network.
      for (const { faults } of liars) await assertWrong(faults[0]?.command ?? "", directory);
    }),
);

test(
  "a machine whose memory errs once is no liar: what it got wrong is computed again, and it is neither quarantined nor banned",
  {
    timeout: 280_000,
  },
  () =>
    withMachines(async (scene) => {
      await scene.enter(["frail"], "bad-memory.ts");
      await scene.enter(["sound"]);
      await checkedBy(scene, namesOf(3));
      const standings = await scene.client.trust.standings();
      const frail = standings.find(({ name }) => name === "frail");
      assert.deepEqual(
        frail?.faults.map(({ kind }) => kind),
        ["hardware"],
      );
      assert.notEqual(frail?.standing, "quarantined");
      for (const one of standings) if (one.name !== "frail") assert.deepEqual(one.faults, [], one.name);
    }),
);

async function assertWrong(command: string, directory: string): Promise<void> {
  const [, , ...words] = command.split(" ");
  const repeated = await dcnr(["audit", ...words, "--dir", directory, "--json"]);
  assert.equal(repeated.code, 1, repeated.err);
  const { right, signed } = JSON.parse(repeated.out) as { right: boolean; signed: boolean };
  assert.deepEqual({ right, signed }, { right: false, signed: true }, command);
}

function namesOf(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `honest-${index + 1}`);
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries > 1_000) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
