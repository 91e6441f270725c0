// Machines that are lent as people lend them: a gate with key and network, a PNode that has neither, and a front that has the terminal. They train
// to the same root as PNodes without gates, and the death of any of these processes ends the others, so that whoever starts
// machines again sees it.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { packagePath } from "../../src/cli/machine/software.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { lentProcesses, standingOf } from "../lent-processes.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { finish, withNetwork } from "./world.ts";

const settings: SessionSettingsInit = {
  ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "portable" },
  steps: 300n,
  checkpointEvery: 10,
  spread: 2,
  learningRate: { schedule: "constant", base: 0.01 },
};

async function prepare(client: Client): Promise<void> {
  await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
}

interface Joined {
  readonly process: ChildProcess;
  readonly directory: string;
  readonly said: () => string;
  readonly ended: Promise<number | null>;
}

/** As a person does it: no parent that talks with it, so it stands apart. */
async function joinAs(
  address: string,
  directory: string,
  name: string,
  words: readonly string[] = [],
): Promise<Joined> {
  const own = join(directory, name);
  const child = spawn(
    process.execPath,
    [
      ...[packagePath("bin/dcnr.js"), "join", address, "--dir", own, "--name", name, "--owner", name],
      ...["--cpus", "1", "--wait", "--memory", "1GB", ...words],
    ],
    { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, NO_COLOR: "1" } },
  );
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const joined = { process: child, directory: own, said: () => said, ended };
  while (!said.includes("Attached.")) {
    assert.equal(child.exitCode, null, said);
    await sleep(50);
  }
  return joined;
}

const processesOf = ({ process: { pid = 0 } }: Joined) => lentProcesses(pid);

async function gone(...processes: readonly (number | undefined)[]): Promise<void> {
  for (const pid of processes)
    for (let tries = 0; pid === undefined || standingOf(pid) !== undefined; tries++) {
      assert.ok(pid !== undefined && tries < 200, "a process of a machine outlives the others");
      await sleep(50);
    }
}

test("PNodes behind gates train to the same root, whichever of their processes is killed", {
  skip: process.platform !== "linux" && "looks for processes in /proc",
}, async () => {
  let root = "";
  await withNetwork(2, async ({ client }) => {
    await prepare(client);
    root = (await finish(client, settings)).stepRoot;
  });
  assert.notEqual(root, "");
  const directory = await mkdtemp(join(tmpdir(), "dcnr-apart-"));
  const orchestrator = await startChild("an orchestrator", [
    ...["orchestrator", "--listen", "127.0.0.1:0", "--dir", join(directory, "o")],
  ]);
  const { address, key } = orchestrator;
  const start = (name: string, words?: readonly string[]) => joinAs(`${address}#${key}`, directory, name, words);
  const client = new Client(address, { fetch });
  const running = new Set<Joined>();
  try {
    let [one, two] = await Promise.all([start("one"), start("two", ["--page", "0"])]);
    running.add(one).add(two);
    assert.match(one.said(), /the process that computes /);
    assert.match(one.said(), /called back: the network reaches it directly/);
    // It is told after "Attached.".
    let page: string | undefined;
    while (!page) {
      page = /Your page on this machine: (\S+)/.exec(two.said())?.[1];
      assert.equal(two.process.exitCode, null, two.said());
      await sleep(50);
    }
    assert.match(await (await fetch(page)).text(), /<html/i);
    await prepare(client);
    let disturbed: Promise<void> | undefined;
    const disturb = async () => {
      const { gate, pnode } = processesOf(one);
      process.kill(gate as number, "SIGKILL");
      assert.equal(await one.ended, 1, "a PNode ends with its gate");
      await gone(pnode);
      running.delete(one);
      one = await start("one");
      running.add(one);
      const others = processesOf(two);
      two.process.kill("SIGKILL");
      await two.ended;
      running.delete(two);
      await gone(others.gate, others.pnode);
      two = await start("two");
      running.add(two);
    };
    const session = await finish(client, settings, ({ step }) => {
      if (step >= 40n) disturbed ??= disturb();
    });
    await disturbed;
    assert.equal(session.status, "done");
    assert.equal(session.stepRoot, root);
    // In good order: work is handed over by the gate, which takes a signal for its PNode's affair.
    const { gate, pnode } = processesOf(one);
    process.kill(gate as number, "SIGTERM");
    one.process.kill("SIGTERM");
    assert.equal(await one.ended, 0, one.said());
    running.delete(one);
    await gone(gate, pnode);
    const last = processesOf(two);
    process.kill(last.pnode as number, "SIGKILL");
    assert.equal(await two.ended, null, "and as its PNode has ended");
    running.delete(two);
    await gone(last.gate);
  } finally {
    for (const { process: child } of running) child.kill("SIGKILL");
    await client.close();
    await stopChild(orchestrator, 3_000);
    await rm(directory, { recursive: true, force: true });
  }
});
