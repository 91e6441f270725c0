// Real processes of which two lie: they are found, named and sent away, what was built on their results is computed again, and
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

const settings: SessionSettingsInit = {
  ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "native" },
  ...{ steps: 12n, checkpointEvery: 4, learningRate: { schedule: "constant", base: 0.01 } },
};

const honestMachines = 4;

test("two machines that lie are found, and the session comes to the root of honest ones", {
  timeout: 280_000,
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-liars-"));
  const options = { listen: "127.0.0.1:0", pnodes: 0, cpusPerPNode: 1, logLevel: "error" };
  const local = await LocalNetwork.start({ ...options, directory });
  const { address, key } = local.orchestrator;
  const machines: Child[] = [];
  const enter = async (name: string, flags: readonly string[] = []) => {
    const at = key === undefined ? address : withKey(address, key);
    const own = ["--name", name, "--owner", name, "--dir", join(directory, name), "--cpus", "1", "--unconfined"];
    const given = { environment: process.env, flags };
    machines.push(await startChild(name, ["join", at, ...own, "--log-level", "error", "--wait"], {}, given));
  };
  const client = new Client(address, { fetch });
  try {
    const hook = ["--import", join(import.meta.dirname, "lying.ts")];
    await Promise.all([enter("liar-1", hook), enter("liar-2", hook)]);
    await client.networks.create(smallNetwork, { id: "small" });
    await addSamples(client, "pairs", smallSamples());
    const checked = await client.sessions.create({ ...settings, spread: 2, assurance: "checked" });
    await until("the liars have trained", async () => (await client.sessions.get(checked.id)).line > 0n);
    const states = client.sessions.states(checked.id);
    await assert.rejects(states, /nothing of session .* is final yet/);
    await Promise.all(Array.from({ length: honestMachines }, (_, index) => enter(`honest-${index + 1}`)));
    const session = await ended(client, checked.id);
    assert.equal(session.status, "done", session.reason);
    assert.equal(session.final, 12n);
    assert.match(session.certificate, /^checked; final up to step 12: .* 0 % by nobody$/);

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
    const [, , ...words] = liars[0]?.faults[0]?.command.split(" ") ?? [];
    const repeated = await dcnr(["audit", ...words, "--dir", directory, "--json"]);
    assert.equal(repeated.code, 1, repeated.err);
    const { right, signed } = JSON.parse(repeated.out) as { right: boolean; signed: boolean };
    assert.deepEqual({ right, signed }, { right: false, signed: true });

    const alone = await client.sessions.create({ ...settings, assurance: "none" });
    const honest = await ended(client, alone.id);
    assert.equal(session.stepRoot, honest.stepRoot, "the root of honest machines");
  } finally {
    await client.close();
    await Promise.all(machines.map((child) => stopChild(child, 3_000)));
    await local.stop();
    await rm(directory, { recursive: true, force: true });
  }
});

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries > 1_000) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
