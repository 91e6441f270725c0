// Machines that find each other with real processes: a newcomer is introduced by a PNode, a PNode answers while no orchestrator
// is there, and machines whose only orchestrator is gone find the next one by what members tell each other.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { Client } from "../../src/client/client.ts";
import { MemberRole, MemberStanding } from "../../src/protocol/gen/dcnr/v1/gossip_pb.ts";
import { dcnr } from "./world.ts";

/** Long on purpose: busy machines are slow, and nothing here is about speed. */
const patienceMs = 90_000;

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + patienceMs;
  for (;;) {
    if (await isSo().catch(() => false)) return;
    assert.ok(Date.now() < endMs, `it never came to this: ${what}`);
    await sleep(200);
  }
}

async function withClientAt<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(address, { fetch });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

const membersAt = (address: string) =>
  withClientAt(address, async (client) => {
    const { members, answer } = await client.members.list();
    const here = members.filter(({ standing }) => standing === MemberStanding.ALIVE);
    const names = here.map(({ record }) =>
      record?.roles.includes(MemberRole.ORCHESTRATOR) ? "o" : (record?.name ?? ""),
    );
    return { names: names.sort().join(" "), hasOrchestrator: answer.hasOrchestrator };
  });

const onlineAt = (address: string) =>
  withClientAt(address, async (client) =>
    (await client.fleet.pnodes())
      .filter(({ status }) => status === "online")
      .map(({ name }) => name)
      .sort()
      .join(" "),
  );

test("any member introduces a newcomer, and nobody in particular is needed to find the others again", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-members-"));
  const started: Child[] = [];
  const start = async (name: string, words: readonly string[]) => {
    const child = await startChild(name, words);
    started.push(child);
    return child;
  };
  const orchestrator = () => start("an orchestrator", ["orchestrator", "--listen", "127.0.0.1:0", "--dir", directory]);
  const lend = (name: string, at: string) =>
    start(name, ["join", at, "--name", name, "--dir", join(directory, name), "--cpus", "1", "--wait"]);
  try {
    const first = await orchestrator();
    const maple = await lend("maple", first.address);
    await until("maple knows the orchestrator", async () => (await membersAt(maple.address)).names === "maple o");
    const oak = await lend("oak", maple.address);
    await until("maple knows oak", async () => (await membersAt(maple.address)).names === "maple o oak");
    await until("both lend", async () => (await onlineAt(first.address)) === "maple oak");
    // What is remembered is written now and then.
    await stopChild(oak, 10_000);
    await until("maple knows that oak left", async () => (await membersAt(maple.address)).names === "maple o");

    first.kill("SIGKILL");
    await until("maple knows that it is gone", async () => !(await membersAt(maple.address)).hasOrchestrator);
    const { code, out } = await dcnr(["status", "--at", maple.address]);
    assert.equal(code, 0);
    assert.match(out, /No orchestrator is there/);
    assert.match(out, /maple/);

    // Another port, and nobody is told of it: oak remembers maple, and maple hears of the orchestrator.
    const again = await lend("oak", first.address);
    const second = await orchestrator();
    assert.notEqual(second.address, first.address);
    await until("both have found it", async () => (await onlineAt(second.address)) === "maple oak");
    await until("oak knows all", async () => (await membersAt(again.address)).names === "maple o oak");
  } finally {
    await Promise.all(started.map((child) => stopChild(child, 3_000)));
    await rm(directory, { recursive: true, force: true });
  }
});
