// `dcnr join` with nothing behind it, on a local network of two machines that are network namespaces: it finds the one
// orchestrator, wants a yes, and the next time asks nobody.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const [server, laptop] = [`dcnr-s${process.pid}`, `dcnr-l${process.pid}`];
const patienceMs = 120_000;

function ip(...words: string[]): void {
  execFileSync("ip", words, { stdio: "pipe" });
}

/** Why it cannot be tried here; undefined once both machines are there. */
function setUp(): string | undefined {
  if (process.platform !== "linux") return "network namespaces are Linux's";
  try {
    for (const name of [server, laptop]) ip("netns", "add", name);
    ip("link", "add", `v${process.pid}a`, "type", "veth", "peer", "name", `v${process.pid}b`);
    for (const [name, link, address] of [
      [server, `v${process.pid}a`, "192.168.77.1/24"],
      [laptop, `v${process.pid}b`, "192.168.77.2/24"],
    ] as const) {
      ip("link", "set", link, "netns", name);
      ip("-n", name, "link", "set", "lo", "up");
      ip("-n", name, "addr", "add", address, "brd", "+", "dev", link);
      ip("-n", name, "link", "set", link, "up");
      ip("-n", name, "route", "add", "default", "dev", link);
    }
    return undefined;
  } catch (error) {
    return `this machine allows no network namespaces (${String((error as Error).message).split("\n")[0]})`;
  }
}

function tearDown(): void {
  for (const name of [server, laptop])
    try {
      ip("netns", "del", name);
    } catch {
      // It was never made.
    }
}

interface Started {
  readonly child: ChildProcess;
  text(): string;
  readonly ended: Promise<number | null>;
}

function start(machine: string, words: readonly string[]): Started {
  const child = spawn("ip", ["netns", "exec", machine, process.execPath, "bin/dcnr.js", ...words], {
    env: { ...process.env, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (bytes) => (text += String(bytes)));
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  return { child, text: () => text, ended };
}

async function says({ text, child }: Started, pattern: RegExp): Promise<void> {
  for (const endMs = Date.now() + patienceMs; !pattern.test(text()); await sleep(100))
    assert.ok(Date.now() < endMs && child.exitCode === null, `it never said ${pattern}: ${text()}`);
}

test("dcnr join with no argument finds the orchestrator of the local network, wants a yes once, and remembers", async (t) => {
  const why = setUp();
  const directory = await mkdtemp(join(tmpdir(), "dcnr-lan-"));
  const started: Started[] = [];
  try {
    if (why !== undefined) return t.skip(why);
    const lent = ["join", "--dir", join(directory, "pnode"), "--name", "laptop", "--cpus", "1", "--log", "pretty"];
    const orchestrator = start(server, [
      "orchestrator",
      "--listen",
      "0.0.0.0:7700",
      "--dir",
      join(directory, "network"),
    ]);
    started.push(orchestrator);
    await says(orchestrator, /Lend a machine/);
    // Nobody is there to say yes.
    const unasked = start(laptop, lent);
    assert.notEqual(await unasked.ended, 0);
    assert.match(unasked.text(), /not joined.*--yes/s);

    const joined = start(laptop, [...lent, "--yes"]);
    started.push(joined);
    await says(joined, /Attached/);
    joined.child.kill("SIGTERM");
    await joined.ended;
    const { addresses } = JSON.parse(await readFile(join(directory, "pnode", "joined.json"), "utf8")) as {
      addresses: string[];
    };
    assert.equal(addresses.length, 1);
    assert.match(addresses[0] as string, /^192\.168\.77\.1:7700#[a-z2-7]{52}$/);

    const again = start(laptop, lent);
    started.push(again);
    await says(again, /Attached/);
  } finally {
    for (const { child } of started) child.kill("SIGTERM");
    await Promise.all(started.map(({ ended }) => ended));
    tearDown();
    await rm(directory, { recursive: true, force: true });
  }
});
