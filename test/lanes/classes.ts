// `npm run classes`: one model on a process with the native runtime, one with the portable engine alone and a page of a browser, a lane each.
// What comes out is what the records of its rounds lead to in one place, bit for bit.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { isCommon } from "../../src/network/rounds.ts";
import { launchBrowser } from "../browser/browser.ts";
import { ended, smallNetwork, smallSamples } from "../small-training.ts";
import { openTab } from "../tabs/tabs.ts";
import { replayed } from "./replayed.ts";

const lanes = 3;
/** Of a core, as both processes are told. */
const gflops = 20;
const [steps, sync] = [62, { every: 5, after: 2 }];

const directory = await mkdtemp(join(tmpdir(), "dcnr-classes-"));
const started: Child[] = [];
const browser = await launchBrowser();
try {
  const home = join(directory, "o");
  const words = ["orchestrator", "--listen", "127.0.0.1:0", "--dir", home, "--relay"];
  const orchestrator = await startChild("the orchestrator", words);
  started.push(orchestrator);
  const lend = async (name: string) => {
    const own = join(directory, name);
    const child = await startChild(name, [
      "join",
      orchestrator.address,
      "--name",
      name,
      "--dir",
      own,
      "--cpus",
      "1",
      "--wait",
    ]);
    return { child, own };
  };
  // Speeds that a busy machine measures are chance, and lanes change classes where it pays: both processes are said to be equally fast. The second
  // is as a machine on which only the portable engine was found.
  for (const name of ["native", "portable"]) {
    const { child, own } = await lend(name);
    const known = join(own, "measured.json");
    await measured(known);
    await stopChild(child, 5_000);
    await rewrite(known, name === "portable" ? "native" : "none");
    started.push((await lend(name)).child);
  }
  await openTab(browser, orchestrator.address, "tab");

  const client = new Client(orchestrator.address, { fetch });
  await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
  const session = await client.sessions.create({
    ...{ network: "small", dataset: "pairs", split: "all", batch: 12, microbatches: 6, seed: 7n, lanes },
    ...{ numerics: "mixed", elastic: "on", assurance: "none", steps: BigInt(steps), checkpointEvery: 5 },
    ...{ syncEvery: sync.every, syncAfter: BigInt(sync.after), learningRate: { schedule: "constant", base: 0.01 } },
  });
  const { status, reason } = await ended(client, session.id);
  assert.equal(status, "done", reason);
  const told = new Map((await client.sessions.stepRoots(session.id)).map(({ step, root }) => [Number(step), root]));
  const { rounds, common, roots } = await replayed(home, session.id, ["native", "portable"]);
  console.log(`before the first round: ${common}`);
  for (const { round, lanes: plans, counted } of rounds)
    console.log(
      `round ${round}: ${plans.map((one) => `lane ${one.lane} ${one.class} x${one.steps}`).join(", ")}; ${counted?.join(", ")} count`,
    );
  const same = roots.flatMap((root, index) =>
    isCommon({ steps, sync: { ...sync, rules: 1 } }, index + 1) ? [[index + 1, root] as const] : [],
  );
  for (const [step, root] of same) assert.equal(told.get(step), root, `the root after step ${step}`);
  const kinds = (plans: (typeof rounds)[number]["lanes"]) => new Set(plans.map((one) => one.class)).size;
  const best = rounds.filter(
    (one) => one.lanes.length === lanes && kinds(one.lanes) === 2 && one.counted?.length === lanes,
  );
  assert.ok(best.length > 0, "all three learned in one round, in two classes");
  console.log(
    `${same.length} common roots are those of the records, ${best.length} of ${rounds.length} rounds had all lanes in both classes`,
  );
} finally {
  await browser.close();
  await Promise.all(started.map((child) => stopChild(child, 3_000)));
  await rm(directory, { recursive: true, force: true });
}

/** A busy machine joins before it was measured, and is measured then. */
async function measured(file: string): Promise<void> {
  while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 200));
}

async function rewrite(file: string, without: string): Promise<void> {
  const text = await readFile(file, "utf8");
  const known = JSON.parse(text) as { value?: { gflops: number; classes: { engine: string }[] } };
  assert.ok(known.value, text.slice(0, 200));
  known.value.gflops = gflops;
  known.value.classes = known.value.classes.filter(({ engine }) => engine !== without);
  await writeFile(file, JSON.stringify(known));
}
