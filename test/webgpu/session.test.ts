import { strict as assert } from "node:assert";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { addSamples } from "../../src/client/samples.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { type TestNetwork, withNetwork } from "../e2e/world.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { softwareGpus } from "./software-gpu.ts";

const [gpu] = await softwareGpus();

interface Lender {
  readonly child: ChildProcessWithoutNullStreams;
  readonly said: () => string;
}

const lenders: Lender[] = [];

/** A PNode that lends a GPU in software. What it measured stays in its directory. */
function lend(
  { local }: TestNetwork,
  directory: string,
  name: string,
  environment: Record<string, string> = {},
): Lender {
  const words = ["join", local.orchestrator.address, "--name", name, "--owner", name, "--cpus", "1"];
  const own = ["--dir", join(directory, name), "--gpu", "any", "--wait", "--log-level", "warn"];
  const child = spawn(process.execPath, ["bin/dcnr.js", ...words, ...own], {
    env: { ...process.env, ...gpu?.environment, VK_LOADER_LAYERS_DISABLE: "*", NO_COLOR: "1", ...environment },
  });
  const parts: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes: Buffer) => parts.push(bytes));
  const lender = { child, said: () => Buffer.concat(parts).toString() };
  lenders.push(lender);
  return lender;
}

async function heard({ child, said }: Lender, words: RegExp): Promise<void> {
  while (!words.test(said())) await Promise.race([once(child.stdout, "data"), once(child.stderr, "data")]);
}

async function end({ child }: Lender): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}

async function begin({ client }: TestNetwork): Promise<string> {
  const { id: network } = await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
  const { id } = await client.sessions.create({
    ...{ network, dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "webgpu" },
    ...{ steps: 12n, checkpointEvery: 4, learningRate: { schedule: "constant", base: 0.01 } },
  });
  return id;
}

async function until({ client }: TestNetwork, id: string, holds: (session: Session) => boolean): Promise<Session> {
  for await (const { session } of client.sessions.watch(id)) if (session && holds(session)) return session;
  return client.sessions.get(id);
}

const hasEnded = ({ status }: Session) => status === "done" || status === "failed";

test("a session on GPUs says what it waits for, and a device that is lost in mid-step changes no bit", {
  skip: gpu === undefined && "the packaged drivers are for Linux on x64",
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-gpus-"));
  let undisturbed = "";
  try {
    await withNetwork(1, async (network) => {
      const id = await begin(network);
      const { reason } = await until(network, id, (session) => session.reason !== "");
      assert.match(reason, /needs the webgpu engine; none of 1 PNode has it/);
      const first = lend(network, directory, "first");
      const done = await until(network, id, hasEnded);
      assert.equal(done.status, "done", first.said());
      assert.match(done.numericsClass, /^webgpu-[0-9a-f]{12}$/);
      undisturbed = done.stepRoot;
    });
    for (const lender of lenders) await end(lender);
    await withNetwork(1, async (network) => {
      const id = await begin(network);
      // Its graphs are warmed up by some dozen runs; the device goes in one of the steps after that.
      const losing = lend(network, directory, "first", { DCNR_TEST_GPU_LOST_AFTER: "100" });
      await heard(losing, /the GPU was lost: .* Its VNodes are handed back; start this PNode again/);
      // The same GPU in the same machine: what was found out of it once holds for both.
      await mkdir(join(directory, "second"));
      await copyFile(join(directory, "first", "webgpu.json"), join(directory, "second", "webgpu.json"));
      lend(network, directory, "second");
      const done = await until(network, id, hasEnded);
      assert.equal(done.status, "done", done.reason);
      assert.equal(done.stepRoot, undisturbed);
      const nodes = await network.client.fleet.pnodes();
      const shown = nodes.find(({ name }) => name === "first")?.capabilities?.numerics.map(({ engine }) => engine);
      assert.ok(shown && !shown.includes("webgpu"), `${shown}`);
    });
  } finally {
    for (const lender of lenders) await end(lender);
    await rm(directory, { recursive: true, force: true });
  }
});
