// A PNode whose main thread gets no turn for far longer than the limit of silence is busy, not dead: real processes.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import { Client } from "../../src/client/client.ts";
import { pause } from "../chaos/fleet.ts";

/** Three times what a silent PNode is given. */
const heldUpMs = 9_000;

test("a PNode that is too busy to send heartbeats keeps its place, and one that is killed loses it at once", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-test-"));
  const started: Child[] = [];
  const start = async (name: string, words: string[], environment: NodeJS.ProcessEnv = {}) => {
    const child = await startChild(
      name,
      [...words, "--dir", join(directory, name), "--log-level", "error"],
      environment,
    );
    started.push(child);
    return child;
  };
  try {
    const orchestrator = await start("orchestrator", ["orchestrator", "--listen", "127.0.0.1:0"]);
    const hook = new URL("./held-up.mjs", import.meta.url).href;
    const pnode = await start("maple", ["join", orchestrator.address, "--name", "maple", "--cpus", "1"], {
      NODE_OPTIONS: `--import ${hook}`,
      DCNR_TEST_HELD_UP_MS: String(heldUpMs),
    });
    const client = new Client(orchestrator.address, { fetch });
    const kinds = async () => (await client.fleet.events()).map(({ kind }) => kind);
    // Its pulse begins with its registration.
    await pause(1_000);
    pnode.kill("SIGUSR2");
    await pause(heldUpMs + 1_000);
    assert.deepEqual(
      (await kinds()).filter((kind) => kind === "pnode.lost"),
      [],
    );
    pnode.kill("SIGKILL");
    await pnode.ended;
    for (let i = 0; i < 100 && !(await kinds()).includes("pnode.lost"); i++) await pause(100);
    assert.equal((await kinds()).filter((kind) => kind === "pnode.lost").length, 1);
    await client.close();
  } finally {
    for (const child of started.reverse()) await stopChild(child, 3_000);
    await rm(directory, { recursive: true, force: true });
  }
});
