// The promise, with tabs: a process and three pages of a browser train together. One page is closed and one is killed in
// mid-step, one is frozen for five seconds, and the step root is that of the process alone.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { launchBrowser } from "../browser/browser.ts";
import { ended, smallNetwork, smallSamples } from "../small-training.ts";
import { openTab, type Tab } from "./tabs.ts";

const layers = 6;
const network = `
name: layers
nodes:
  - { id: layer_0, type: linear, config: { in_dim: 2, out_dim: 16, optimizer: adam } }
${Array.from({ length: layers - 2 }, (_, i) => `  - { id: layer_${i + 1}, type: linear, config: { in_dim: 16, out_dim: 16, optimizer: adam } }`).join("\n")}
  - { id: layer_${layers - 1}, type: linear, config: { in_dim: 16, out_dim: 2, optimizer: adam } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
${Array.from({ length: layers - 1 }, (_, i) => `  - { from: layer_${i}, to: layer_${i + 1} }`).join("\n")}
  - { from: layer_${layers - 1}, to: loss }
outputs: [{ name: logits, node_id: layer_${layers - 1} }]
costs: [{ name: loss, node_id: loss }]
`;

const steps = 48;
const settings: SessionSettingsInit = {
  ...{ network: "layers", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "portable" },
  steps: BigInt(steps),
  checkpointEvery: 6,
  spread: 4,
  learningRate: { schedule: "constant", base: 0.01 },
};
const frozenMs = 5_000;

interface Fleet {
  readonly client: Client;
  readonly orchestrator: Child;
}

async function withFleet<T>(run: (fleet: Fleet) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-tabs-"));
  const started: Child[] = [];
  try {
    const words = ["orchestrator", "--listen", "127.0.0.1:0", "--dir", join(directory, "o"), "--relay"];
    const orchestrator = await startChild("the orchestrator", words);
    started.push(orchestrator);
    const place = ["--dir", join(directory, "p"), "--cpus", "1", "--wait"];
    started.push(await startChild("maple", ["join", orchestrator.address, "--name", "maple", ...place]));
    const client = new Client(orchestrator.address, { fetch });
    await client.networks.create(network, { id: "layers" });
    await addSamples(client, "pairs", smallSamples());
    return await run({ client, orchestrator });
  } finally {
    await Promise.all(started.map((child) => stopChild(child, 3_000)));
    await rm(directory, { recursive: true, force: true });
  }
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function untilStep(client: Client, session: string, step: number): Promise<void> {
  for (;;) {
    const { step: now, status, reason } = await client.sessions.get(session);
    if (Number(now) >= step) return;
    assert.notEqual(status, "failed", reason);
    await sleep(100);
  }
}

test("a process and three tabs train to the root of the process alone, whatever happens to the tabs", async () => {
  const alone = await withFleet(async ({ client }) => {
    const { id } = await client.sessions.create({ ...settings, spread: 1 });
    const session = await ended(client, id);
    assert.equal(session.status, "done", session.reason);
    return session.stepRoot;
  });
  const browser = await launchBrowser();
  try {
    await withFleet(async ({ client, orchestrator }) => {
      const tabs: Tab[] = [];
      for (const name of ["oak", "elm", "ash"]) tabs.push(await openTab(browser, orchestrator.address, name));
      const [oak, elm, ash] = tabs as [Tab, Tab, Tab];
      assert.ok(
        tabs.every(({ processes }) => processes.length > 0),
        "every tab has a process of its own",
      );
      const { id } = await client.sessions.create(settings);
      await untilStep(client, id, 2);
      await Promise.all(tabs.map(({ page }) => page.getByText(/^Computes/).waitFor({ timeout: 60_000 })));
      await untilStep(client, id, 8);
      await oak.page.close();
      await untilStep(client, id, 20);
      elm.signal("SIGKILL");
      await untilStep(client, id, 32);
      ash.signal("SIGSTOP");
      await sleep(frozenMs);
      ash.signal("SIGCONT");
      const session = await ended(client, id);
      assert.equal(session.status, "done", session.reason);
      assert.equal(session.step, BigInt(steps));
      assert.equal(session.stepRoot, alone);
      const pieces = await ash.page.locator("#visit").textContent();
      assert.match(pieces ?? "", /^[1-9]\d* pieces of work/, "the tab that came back has contributed");
    });
  } finally {
    await browser.close();
  }
});

test("tabs repeat what a process computed in a session that is checked, sign what comes out, and agree", async () => {
  const browser = await launchBrowser();
  try {
    await withFleet(async ({ client, orchestrator }) => {
      const tabs: Tab[] = [];
      for (const name of ["oak", "elm"]) tabs.push(await openTab(browser, orchestrator.address, name));
      await client.networks.create(smallNetwork, { id: "small" });
      const { id } = await client.sessions.create({
        ...{ ...settings, network: "small", steps: 9n, checkpointEvery: 3, spread: 1, assurance: "checked" },
      });
      // Done means that every interval was repeated by somebody else, of whom there are only tabs.
      const session = await ended(client, id);
      assert.equal(session.status, "done", session.reason);
      const reports = await Promise.all(tabs.map(({ page }) => page.locator("#log").textContent()));
      assert.match(reports.join(), /repeating VNode/);
    });
  } finally {
    await browser.close();
  }
});
