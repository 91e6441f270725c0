// The promise in small, with real processes: the same seed gives the same step root on one PNode and on three, and
// whoever is killed or leaves on the way.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { measuredVariable } from "../../src/cli/machine/measured.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import type { Client } from "../../src/client/client.ts";
import { dcnr, finish, prepare, withNetwork } from "./world.ts";

const definition = readFileSync("examples/mlp.yaml", "utf8");
const settings = (network: string): SessionSettingsInit => ({
  network,
  dataset: "mnist",
  steps: 60n,
  batch: 32,
  microbatches: 4,
  seed: 7n,
  checkpointEvery: 5,
  validateEvery: 30,
  learningRate: { base: 0.002, schedule: "cosine", warmupSteps: 5n, finalShare: 0.1 },
});

let alone = "";

test("one PNode trains to a step root", () =>
  withNetwork(1, async (network) => {
    const id = await prepare(network, definition, "mnist");
    const session = await finish(network.client, settings(id));
    assert.equal(session.status, "done", session.reason);
    assert.match(session.stepRoot, /^[0-9a-f]{64}$/);
    assert.ok(session.validationAccuracy > 0.6, `accuracy ${session.validationAccuracy}`);
    const roots = await network.client.sessions.stepRoots(session.id);
    assert.equal(roots.length, 60, "every step has a root");
    assert.equal(roots.at(-1)?.root, session.stepRoot);
    alone = session.stepRoot;
  }));

test("three PNodes come to the same step root", () =>
  withNetwork(3, async (network) => {
    const id = await prepare(network, definition, "mnist");
    const places = new Set<string>();
    const looking: Promise<void>[] = [];
    const session = await finish(network.client, { ...settings(id), spread: 3 }, (now) => {
      if (Number(now.step) > 5 && looking.length === 0) looking.push(noteHosts(network.client, places));
    });
    await Promise.all(looking);
    assert.equal(session.status, "done", session.reason);
    assert.equal(session.stepRoot, alone);
    assert.equal(places.size, 3, "three PNodes took part");
  }));

test("a PNode that is killed and one that leaves change nothing about the step root", () =>
  withNetwork(4, async (network) => {
    const id = await prepare(network, definition, "mnist");
    const { pnodes } = network.local;
    let disturbed = 0;
    const session = await finish(network.client, { ...settings(id), spread: 3 }, (now) => {
      if (disturbed === 0 && Number(now.step) >= 15) {
        disturbed = 1;
        void killOneThatWorks(network, pnodes, "SIGKILL");
      } else if (disturbed === 1 && Number(now.step) >= 35) {
        disturbed = 2;
        void killOneThatWorks(network, pnodes, "SIGTERM");
      }
    });
    assert.equal(disturbed, 2, "both happened");
    assert.equal(session.status, "done", session.reason);
    assert.equal(session.stepRoot, alone);
    const events = await network.client.fleet.events();
    assert.ok(
      events.some(({ kind }) => kind === "pnode.lost"),
      "the loss was noticed",
    );
    assert.ok(
      events.some(({ kind }) => kind === "pnode.left"),
      "the leave was noticed",
    );
  }));

async function noteHosts(client: Client, places: Set<string>): Promise<void> {
  for (const { pnode } of await client.fleet.vnodes()) places.add(pnode);
}

async function killOneThatWorks(
  { client }: Parameters<Parameters<typeof withNetwork>[1]>[0],
  pnodes: readonly { id: string; kill(signal: NodeJS.Signals): void }[],
  signal: NodeJS.Signals,
): Promise<void> {
  const hosts = new Set((await client.fleet.vnodes()).map(({ pnode }) => pnode));
  pnodes.find(({ id }) => hosts.has(id))?.kill(signal);
}

test("three terminals: every command answers, for people and as JSON", () => {
  // Here the machine is measured, which other networks of tests are told of.
  delete process.env[measuredVariable];
  return withNetwork(1, async ({ client, local }) => {
    const environment = { DCNR_ORCHESTRATOR: local.orchestrator.address };
    const created = await dcnr(["network", "create", "examples/mlp.yaml", "--json"], environment);
    assert.equal(created.code, 0, created.err);
    assert.equal((JSON.parse(created.out) as { id: string }).id, "mlp");
    const trained = await dcnr(["train", "mlp", "--dataset", "mnist", "--steps", "5", "--json"], environment);
    assert.equal(trained.code, 0, trained.err);
    assert.equal((JSON.parse(trained.out) as { status: string }).status, "done");
    for (const words of [
      ["nodes"],
      ["status"],
      ["vnodes"],
      ["events"],
      ["session", "list"],
      ["network", "list"],
      ["network", "show", "mlp"],
      ["top", "--once"],
      ["version"],
      ["config"],
    ]) {
      const json = await dcnr([...words, "--json"], environment);
      assert.equal(json.code, 0, `${words.join(" ")}: ${json.err}`);
      JSON.parse(json.out);
      const plain = await dcnr(words, { ...environment, COLUMNS: "40" });
      assert.equal(plain.code, 0, `${words.join(" ")}: ${plain.err}`);
      assert.ok(plain.out.trim().length > 0, words.join(" "));
    }
    const numerics = (await client.fleet.pnodes())[0]?.capabilities?.numerics ?? [];
    assert.deepEqual(
      numerics.map(({ engine }) => engine),
      ["native", "portable", "exact"],
    );
  });
});
