// `node scripts/run.mjs scripts/join-image.ts`: makes docs/images/join.png, a real page that trains with a real process.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, startChild, stopChild } from "../src/cli/machine/processes.ts";
import { Client } from "../src/client/client.ts";
import { addSamples } from "../src/client/samples.ts";
import { launchBrowser } from "../test/browser/browser.ts";
import { smallNetwork, smallSamples } from "../test/small-training.ts";

const image = join(import.meta.dirname, "../docs/images/join.png");
const directory = mkdtempSync(join(tmpdir(), "dcnr-join-image-"));
const started: Child[] = [];
const browser = await launchBrowser({ gpu: true });
try {
  const words = ["orchestrator", "--listen", "127.0.0.1:0", "--dir", join(directory, "o"), "--relay"];
  const orchestrator = await startChild("the orchestrator", words);
  started.push(orchestrator);
  const place = ["--dir", join(directory, "p"), "--cpus", "1", "--wait"];
  started.push(await startChild("maple", ["join", orchestrator.address, "--name", "maple", ...place]));
  const context = await browser.newContext({ viewport: { width: 860, height: 900 }, deviceScaleFactor: 1.5 });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(`http://${orchestrator.address}/join`);
  await page.locator("#limits").waitFor();
  await page.fill("#cores", "1");
  await page.fill("#name", "reading-room");
  await page.click("#lend");
  await page.getByText("by relay").waitFor();
  const client = new Client(orchestrator.address, { fetch });
  await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
  await client.sessions.create({
    ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "portable" },
    ...{ steps: 2_000n, checkpointEvery: 20, spread: 2, learningRate: { schedule: "constant", base: 0.01 } },
  });
  await page
    .getByText(/^[1-9]\d\d+ pieces of work/)
    .first()
    .waitFor();
  await page.screenshot({ path: image, fullPage: true });
} finally {
  await browser.close();
  await Promise.all(started.map((child) => stopChild(child, 2_000)));
  rmSync(directory, { recursive: true, force: true });
}
