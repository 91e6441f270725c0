// The inside of machines.test.ts: runs as the first machine, in a network namespace where nobody else is.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../src/client/client.ts";
import { addSamples } from "../../src/client/samples.ts";
import { smallNetwork, smallSamples } from "../small-training.ts";

const address = "10.77.0.1:7700";
const steps = 600n;
const directory = mkdtempSync(join(tmpdir(), "dcnr-machines-"));
const dcnr = join(import.meta.dirname, "..", "..", "bin", "dcnr.js");
const processes: ChildProcess[] = [];

function ip(...words: string[]): void {
  execFileSync("ip", words, { stdio: ["ignore", "ignore", "inherit"] });
}

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries > 600) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

interface Machine {
  readonly host: string;
  /** Runs a command there, as its own network sees the world. */
  readonly run: (...words: string[]) => void;
  readonly start: (...words: string[]) => void;
}

/** A process in a namespace of its own holds the machine's network. */
async function machine(number: number): Promise<Machine> {
  const holder = spawn("unshare", ["--net", "sleep", "1000"], { stdio: "ignore" });
  processes.push(holder);
  const pid = holder.pid as number;
  const own = readlinkSync("/proc/self/ns/net");
  await until("the namespace is there", () => readlinkSync(`/proc/${pid}/ns/net`) !== own);
  const enter = ["--target", String(pid), "--net"];
  const run = (...words: string[]) =>
    void execFileSync("nsenter", [...enter, ...words], { stdio: ["ignore", "ignore", "inherit"] });
  const host = `10.77.0.${number}`;
  ip("link", "add", `v${number}`, "type", "veth", "peer", "name", "eth0", "netns", String(pid));
  ip("link", "set", `v${number}`, "master", "br0", "up");
  run("ip", "address", "add", `${host}/24`, "dev", "eth0");
  for (const one of ["lo", "eth0"]) run("ip", "link", "set", one, "up");
  const start = (...words: string[]) => {
    const all = [...enter, process.execPath, dcnr, ...words, "--log-level", "warn"];
    processes.push(spawn("nsenter", all, { stdio: ["ignore", "ignore", "inherit"] }));
  };
  return { host, run, start };
}

async function finished(client: Client, session: string) {
  await until("the session is done", async () =>
    ["done", "failed"].includes((await client.sessions.get(session)).status),
  );
  return client.sessions.get(session);
}

async function main(): Promise<void> {
  ip("link", "set", "lo", "up");
  ip("link", "add", "br0", "type", "bridge");
  ip("address", "add", "10.77.0.1/24", "dev", "br0");
  ip("link", "set", "br0", "up");
  const orchestrator = [dcnr, "orchestrator", "--listen", "0.0.0.0:7700", "--dir", join(directory, "o")];
  processes.push(spawn(process.execPath, [...orchestrator, "--log-level", "warn"], { stdio: "ignore" }));
  const machines = [await machine(2), await machine(3), await machine(4)];
  for (const { host, start } of machines)
    start("join", address, "--wait", "--name", host, "--dir", join(directory, host), "--cpus", "1");
  const client = new Client("127.0.0.1:7700", { fetch });
  const pnodes = () => client.fleet.pnodes().catch(() => []);
  await until("three machines are there", async () => (await pnodes()).length === 3);
  assert.deepEqual(
    (await pnodes()).map((one) => one.address.split(":")[0]).sort(),
    machines.map(({ host }) => host),
    "each is known under its own address",
  );
  await client.networks.create(smallNetwork, { id: "small" });
  await addSamples(client, "pairs", smallSamples());
  const settings = { network: "small", dataset: "pairs", split: "all", steps, batch: 8, microbatches: 2, seed: 7n };
  const begin = async (spread: number) => (await client.sessions.create({ ...settings, spread })).id;

  const whole = await finished(client, await begin(1));
  const parted = await begin(2);
  await until("it trains", async () => (await client.sessions.get(parted)).step > 50n);
  const owners = new Set((await client.fleet.vnodes(parted)).map((one) => one.pnode));
  assert.equal(owners.size, 2, "on two machines");
  const [one, other] = (await pnodes())
    .filter(({ id }) => owners.has(id))
    .map(({ address: at }) => machines.find(({ host }) => at.startsWith(`${host}:`)) as Machine);
  one?.run("ip", "route", "add", "blackhole", `${other?.host}/32`);
  const { status, stepRoot, reason } = await finished(client, parted);
  assert.equal(status, "done", reason);
  assert.equal(stepRoot, whole.stepRoot);
  const events = await client.fleet.events(0n, { kindPrefix: "pnode.unreachable" });
  assert.match(events[0]?.message ?? "", /do not reach each other/);
  assert.ok(
    processes.every(({ exitCode, signalCode }) => exitCode === null && signalCode === null),
    "no process ended on the way",
  );
  await client.close();
}

try {
  await main();
  console.log("done");
} finally {
  for (const child of processes) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
}
