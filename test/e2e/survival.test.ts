// What a network survives, with real processes: the loss of an orchestrator on shared stores, of everything at once,
// and an owner that wakes up after its replacement. The step root is the one of an undisturbed run each time.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import type { SessionSettingsInit } from "../../src/client/calls/sessions.ts";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { hasCode, messageOf } from "../../src/core/errors.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";
import { startPostgres } from "../store/servers/postgres.ts";
import { startS3 } from "../store/servers/s3.ts";
import { dcnr, finish } from "./world.ts";

const steps = 400;
const settings: SessionSettingsInit = {
  ...{ network: "small", dataset: "pairs", split: "all", batch: 8, microbatches: 2, seed: 1n, numerics: "native" },
  steps: BigInt(steps),
  checkpointEvery: 10,
  spread: 2,
  learningRate: { schedule: "constant", base: 0.01 },
};

/** Runs with a place for files; whatever process was started in it is ended. */
async function inDirectory(run: (directory: string, started: Child[]) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-survival-"));
  const started: Child[] = [];
  try {
    await run(directory, started);
  } finally {
    for (const child of started) child.kill("SIGCONT");
    await Promise.all(started.map((child) => stopChild(child, 3_000)));
    await rm(directory, { recursive: true, force: true });
  }
}

const orchestrator = (directory: string, words: readonly string[] = []) =>
  startChild("an orchestrator", ["orchestrator", "--listen", "127.0.0.1:0", "--dir", directory, ...words]);

const pnode = (name: string, directory: string, orchestrators: readonly Child[], words: readonly string[] = []) =>
  startChild(name, [
    ...["join", ...orchestrators.map(({ address }) => address), "--name", name, "--owner", name],
    ...["--dir", join(directory, name), "--cpus", "1", "--wait", ...words],
  ]);

async function prepare(client: Client): Promise<void> {
  await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
}

/** The root of a run that nothing happens to, in a network of its own. */
async function undisturbedRun(): Promise<string> {
  let root = "";
  await inDirectory(async (directory, started) => {
    const calm = await orchestrator(directory);
    started.push(calm);
    started.push(...(await Promise.all(["maple", "birch"].map((name) => pnode(name, directory, [calm])))));
    const client = new Client(calm.address, { fetch });
    await prepare(client);
    root = (await finish(client, settings)).stepRoot;
    await client.close();
  });
  assert.match(root, /^[0-9a-f]{64}$/);
  return root;
}

/** Found by whichever test needs it first: each can run alone. */
let undisturbed: Promise<string> | undefined;

async function assertUndisturbed(session: Session): Promise<void> {
  assert.equal(session.status, "done", session.reason);
  assert.equal(session.step, BigInt(steps));
  undisturbed ??= undisturbedRun();
  assert.equal(session.stepRoot, await undisturbed);
}

/** Asks until the answer is yes; the test's own time limit is the only one. */
async function until(what: () => Promise<boolean>): Promise<void> {
  while (!(await what())) await new Promise((resolve) => setTimeout(resolve, 50));
}

test("two orchestrators share PostgreSQL and S3: the loss of one changes nothing", () =>
  inDirectory(async (directory, started) => {
    const [postgres, s3] = await Promise.all([startPostgres(), startS3()]);
    try {
      const shared = ["--store", postgres.url, "--blobs", `s3://${s3.bucket}/dcnr@${s3.endpoint}`];
      const two = await Promise.all(["a", "b"].map((name) => orchestrator(join(directory, name), shared)));
      const [first, second] = two as [Child, Child];
      started.push(first, second);
      // Both begin at the one that is killed, so that whatever it alone knew would be missed.
      started.push(...(await Promise.all(["maple", "birch"].map((name) => pnode(name, directory, two)))));
      const client = new Client(second.address, { fetch });
      await prepare(client);
      let killedAt = -1;
      const session = await finish(client, settings, ({ step }) => {
        // Late enough that it has taken losses which it has not written yet.
        if (killedAt >= 0 || Number(step) < steps / 2) return;
        killedAt = Number(step);
        first.kill("SIGKILL");
      });
      assert.ok(killedAt >= steps / 2 && killedAt < steps, `killed on the way, at step ${killedAt}`);
      await assertUndisturbed(session);
      const losses = await client.sessions.metrics(session.id, ["loss"]);
      assert.equal(new Set(losses.map(({ step }) => Number(step))).size, steps, "the loss curve has no hole");
      await until(async () => (await client.fleet.pnodes()).every(({ status }) => status === "online"));
      await until(async () => (await client.fleet.pnodes()).every(({ latencyMs }) => latencyMs > 0));
      const links = (await client.fleet.pnodes()).flatMap((one) => one.links);
      assert.ok(
        links.length > 0 && links.every((link) => link.latencyMs + link.bytesPerSecond > 0),
        "links are measured",
      );
      assert.ok(s3.objects.size > 0, "checkpoints and data lie in the bucket");
      await client.close();
    } finally {
      await postgres.stop();
      await s3.stop();
    }
  }));

test("everything is killed and started again: the session goes on to the same root, and under no other settings", () =>
  inDirectory(async (directory, started) => {
    const before = await orchestrator(directory);
    started.push(before);
    const pnodes = await Promise.all(["maple", "birch"].map((name) => pnode(name, directory, [before])));
    started.push(...pnodes);
    const client = new Client(before.address, { fetch });
    await prepare(client);
    const { id } = await client.sessions.create(settings);
    for await (const { session } of client.sessions.watch(id)) if (Number(session?.line) >= 20) break;
    for (const child of started) child.kill("SIGKILL");
    await Promise.all(started.splice(0).map(({ ended }) => ended));
    await client.close();

    const after = await orchestrator(directory);
    started.push(after);
    const again = new Client(after.address, { fetch });
    const found = await again.sessions.get(id);
    assert.ok(found.line >= 20n && found.line < BigInt(steps), `the recovery line is ${found.line}`);
    // Nobody is there to compute, so that it cannot be done before other settings are tried.
    await assert.rejects(
      again.sessions.start(id, { ...settings, seed: 2n, batch: 16 }),
      (error) => hasCode(error, "failed_precondition") && /seed was 1.+2/.test(messageOf(error)),
    );
    await assert.rejects(again.sessions.start(id, { ...settings, numerics: "portable" }), /numerics was "native"/);
    await again.networks.create(smallNetwork.replace("tanh", "relu"), { id: "other" });
    await assert.rejects(again.sessions.start(id, { ...settings, network: "other" }), /definition was/);
    started.push(...(await Promise.all(["maple", "birch"].map((name) => pnode(name, directory, [after])))));
    const resumed = await dcnr(["session", "resume", id, "--json", "--orchestrator", after.address]);
    assert.equal(resumed.code, 0, resumed.err);
    await assertUndisturbed(await again.sessions.get(id));
    await again.close();
  }));

test("a PNode that sleeps past its replacement can change nothing and stops by itself", () =>
  inDirectory(async (directory, started) => {
    const only = await orchestrator(directory);
    started.push(only);
    const names = ["maple", "birch", "cedar"];
    // The fourth is lent at another time of the day: there is work for it when others are gone, and it takes none.
    const hour = new Date().getHours();
    const hours = `${(hour + 10) % 24}-${(hour + 12) % 24}`;
    const [resting, ...pnodes] = (await Promise.all([
      pnode("elm", directory, [only], ["--hours", hours]),
      ...names.map((name) => pnode(name, directory, [only])),
    ])) as [Child, ...Child[]];
    started.push(resting, ...pnodes);
    const client = new Client(only.address, { fetch });
    await prepare(client);
    const { id } = await client.sessions.create(settings);
    for await (const { session } of client.sessions.watch(id)) if (Number(session?.line) >= 20) break;
    const before = await client.fleet.vnodes(id);
    const sleeper = pnodes.find((child) => before.some((vnode) => vnode.pnode === child.id)) as Child;
    assert.ok(await hostedBy(sleeper), "it works");
    sleeper.kill("SIGSTOP");
    await until(async () => (await client.fleet.vnodes(id)).every((vnode) => vnode.pnode !== sleeper.id));
    sleeper.kill("SIGCONT");
    for await (const { session } of client.sessions.watch(id)) {
      if (session?.status === "done" || session?.status === "failed") break;
    }
    await assertUndisturbed(await client.sessions.get(id));
    const after = await client.fleet.vnodes(id);
    for (const vnode of before.filter((one) => one.pnode === sleeper.id)) {
      const now = after.find((one) => one.id === vnode.id);
      assert.ok(Number(now?.epoch) > Number(vnode.epoch), `${vnode.id} has a newer epoch`);
      assert.equal(now?.durableStep, BigInt(steps), "and was brought to the end by its new owner");
    }
    await until(async () => (await hostedBy(sleeper)) === 0);
    assert.ok(!after.some((vnode) => vnode.pnode === resting.id), "one that rests is given nothing");
    const rests = (await client.fleet.pnodes()).find(({ id }) => id === resting.id);
    assert.match(rests?.warnings.join() ?? "", /takes no work now/);
    const events = await client.fleet.events();
    assert.ok(!events.some(({ kind }) => kind === "vnode.disagreement" || kind === "evidence"), "nothing contradicts");
    await client.close();
  }));

/** VNodes that the process itself says it hosts. */
async function hostedBy({ address }: Child): Promise<number> {
  const text = await (await fetch(`http://${address}/metrics`)).text();
  return Number(/^dcnr_pnode_vnodes (\d+)$/m.exec(text)?.[1]);
}
