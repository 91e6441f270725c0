// Separate `dcnr join` on one machine: together they lend no more memory than it has, and their owner's rules hold from the start.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { machineSize } from "../../src/system/machine/hardware.ts";
import { dcnr, withNetwork } from "./world.ts";

const patienceMs = 90_000;

test("a PNode gives way to a second dcnr join, takes its part back when that is killed, and one too many is refused", async () => {
  const scratch = await mkdtemp(join(tmpdir(), "dcnr-sharing-"));
  // Others that are lent here, such as those of other tests, are not meant.
  process.env["XDG_STATE_HOME"] = scratch;
  const { memoryBytes } = machineSize();
  const quarter = Math.floor(memoryBytes / 4);
  await withNetwork(1, async ({ client, local }) => {
    const [first] = local.pnodes;
    const { address } = local.orchestrator;
    const lends = async (name: string) =>
      Number((await client.fleet.pnodes()).find((pnode) => pnode.name === name)?.limits?.memoryBytes ?? 0n);
    const until = async (what: string, holds: () => Promise<boolean>) => {
      const endMs = performance.now() + patienceMs;
      while (!(await holds())) {
        assert.ok(performance.now() < endMs, `not within ${patienceMs / 1000} s: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    };
    await until("it has the machine for itself", async () => (await lends(first?.name ?? "")) === memoryBytes);
    const second = spawn(
      process.execPath,
      [
        ...["bin/dcnr.js", "join", address, "--name", "second", "--dir", join(scratch, "second")],
        ...["--memory", `${quarter}B`, "--cpus", "0.5", "--when-idle", "--page", "0", "--log", "none"],
      ],
      { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, NO_COLOR: "1" } },
    );
    const said: string[] = [];
    for await (const line of createInterface({ input: second.stdout })) {
      said.push(line);
      if (line.startsWith("Your page")) break;
    }
    const words = said.join("\n");
    assert.match(words, /lends\n {2}0.5 of [\d.]+ cores/);
    assert.match(words, /up to [\d.]+ [GM]iB of memory\n {2}shared: maple \(process \d+\) lends/);
    await until("the second lends its part", async () => (await lends("second")) === quarter);
    await until("the first gave way", async () => (await lends(first?.name ?? "")) === memoryBytes - quarter);

    const page = /http:\S+/.exec(words)?.[0] ?? "";
    const token = /"x-token": "([\w-]+)"/.exec(await (await fetch(page)).text())?.[1] ?? "";
    const state = (await (await fetch(`${page}state`, { headers: { "x-token": token } })).json()) as { now: string };
    assert.equal(state.now, "not lent: you use it yourself", "before a calm minute nobody knows");

    const words3 = ["join", address, "--name", "third", "--dir", join(scratch, "third")];
    const third = await dcnr([...words3, "--memory", `${memoryBytes - quarter + 1e8}B`]);
    assert.equal(third.code, 2);
    assert.match(third.err, /--memory .* is more than is left: second \(process \d+\) lends .* Lend .* or less/);

    const ended = once(second, "exit");
    second.kill("SIGKILL");
    await ended;
    await until("its part is free again", async () => (await lends(first?.name ?? "")) === memoryBytes);
  }).finally(() => rm(scratch, { recursive: true, force: true }));
});
