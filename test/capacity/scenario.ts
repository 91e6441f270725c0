// Machines from a real provider, with real processes from beginning to end: they come because work waits, train, are killed by
// their cluster in the middle, come again, and are gone when nothing is left to do. Both trainings have one root.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import type { ProviderInit } from "../../src/client/calls/machines.ts";
import { trainSpec } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { hasCode } from "../../src/core/errors.ts";
import type { Job } from "../../src/protocol/gen/dcnr/v1/job_pb.ts";
import type { Provider, ProviderInstance } from "../../src/protocol/gen/dcnr/v1/provider_pb.ts";
import { runCommand } from "../../src/system/commands.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";

const patienceMs = 300_000;
const steps = 400;

export async function until(what: string, holds: () => Promise<boolean>, limitMs = patienceMs): Promise<void> {
  const endMs = Date.now() + limitMs;
  while (!(await holds())) {
    assert.ok(Date.now() < endMs, `after ${limitMs / 1000} s still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/** Processes with these words in their command line. */
export async function pidsOf(words: string): Promise<number[]> {
  const { out } = await runCommand("ps", ["-A", "-ww", "-o", "pid=,args="]);
  return out.split("\n").flatMap((line) => (line.includes(words) ? [Number.parseInt(line, 10)] : []));
}

export interface ScenarioWorld {
  readonly directory: string;
  readonly client: Client;
  /** Ends the orchestrator as a crash does and starts it again at the same place. */
  crash(): Promise<void>;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** `flags` for a port: what an orchestrator is told whose machines do not call it at loopback. */
export async function withOrchestrator(
  kind: string,
  run: (world: ScenarioWorld) => Promise<void>,
  flags: (port: number) => readonly string[] = (port) => ["--listen", `127.0.0.1:${port}`],
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-capacity-"));
  const port = await freePort();
  const listen = `127.0.0.1:${port}`;
  const words = ["orchestrator", ...flags(port), "--dir", directory, "--providers", kind];
  const start = () => startChild("the orchestrator", words);
  let orchestrator: Child = await start();
  const client = new Client(listen, { fetch });
  const crash = async () => {
    orchestrator.kill("SIGKILL");
    await orchestrator.ended;
    orchestrator = await start();
  };
  try {
    // The first call of an orchestrator on a busy machine may take longer than calls usually wait.
    await until("the orchestrator works", () =>
      client.networks.create(smallNetwork, { id: "small" }).then(
        () => true,
        (error: unknown) => !hasCode(error, "deadline_exceeded"),
      ),
    );
    await addSamples(client, "pairs", smallSamples());
    await run({ directory, client, crash });
  } finally {
    await removeAll(client).catch((error: unknown) => console.log(`left behind: ${error}`));
    await client.close();
    await stopChild(orchestrator, 5_000);
    await rm(directory, { recursive: true, force: true });
  }
}

export async function removeAll(client: Client): Promise<void> {
  for (const { name } of await client.providers.list()) await client.providers.remove(name);
  await until(
    "every provider is gone with all that it ran",
    async () => (await client.providers.list()).length === 0,
    120_000,
  );
}

export const bounds = { least: 0, most: 2, idleSeconds: 3, coolDownSeconds: 1 };

async function train(
  client: Client,
  key: string,
  onRunning: (job: Job) => Promise<void> = async () => {},
): Promise<string> {
  const settings = {
    ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "portable" },
    ...{ steps: BigInt(steps), checkpointEvery: 20, learningRate: { schedule: "constant", base: 0.01 } },
  };
  const [job] = (await client.jobs.submit([{ kind: "train", key, spec: trainSpec(settings) }])) as [Job];
  let session = "";
  await until(`job ${key} runs`, async () => {
    const now = await client.jobs.get(job.id);
    assert.ok(now.status !== "failed", now.reason);
    session = now.session;
    return now.status === "running" || now.status === "done";
  });
  await onRunning(await client.jobs.get(job.id));
  await until(`job ${key} is done`, async () => {
    const now = await client.jobs.get(job.id);
    assert.ok(now.status !== "failed", now.reason);
    return now.status === "done";
  });
  const { stepRoot } = await client.sessions.get(session);
  await client.sessions.delete(session);
  return stepRoot;
}

const there = ({ instances }: Provider) => instances.filter(({ status }) => status !== "ended");

/** `kill` ends a machine as its cluster does; `left` tells what still runs there. */
export async function comeTrainDieAndGo(
  { client, crash }: ScenarioWorld,
  provider: ProviderInit & { readonly name: string },
  kill: (instance: ProviderInstance) => Promise<void>,
  left: () => Promise<number>,
): Promise<void> {
  const own = async () => (await client.providers.list()).find(({ name }) => name === provider.name) as Provider;
  await client.providers.add({ ...provider, limits: bounds });
  const { findings } = await client.providers.test(provider.name);
  assert.deepEqual(
    findings.filter(({ isWell }) => !isWell).map(({ sentence }) => sentence),
    [],
  );
  const undisturbed = await train(client, "undisturbed");
  assert.match(undisturbed, /^[0-9a-f]{64}$/);
  await until("idle machines are given back", async () => there(await own()).length === 0);
  assert.equal(await left(), 0, "nothing runs at the provider");
  let before = "";
  const disturbed = await train(client, "disturbed", async ({ session }) => {
    await until("some steps are done", async () => (await client.sessions.get(session)).step > 50n);
    await crash();
    const [one] = there(await own()) as [ProviderInstance];
    before = one.id;
    await kill(one);
  });
  assert.equal(disturbed, undisturbed, "killed and replaced, and the same root");
  const after = await own();
  assert.match(after.instances.find(({ id }) => id === before)?.detail ?? "", /it is gone/);
  assert.equal(after.problem, "");
  await client.providers.remove(provider.name);
  await until("all is gone", async () => (await client.providers.list()).length === 0);
  assert.equal(await left(), 0, "nothing is left behind");
}
