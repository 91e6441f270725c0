// What DCNR costs while nothing happens: the CPU time of `dcnr --help`, and an idle network's CPU and memory as
// its processes tell them on /metrics.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalNetwork } from "../src/cli/machine/local-network.ts";

const helpRuns = 7;
/** Long enough for a few listings of the store, which come every 5 s. */
const idleSeconds = 30;
const settleSeconds = 5;

export interface IdleProcess {
  readonly role: "orchestrator" | "pnode";
  readonly cpuPercent: number;
  readonly megabytes: number;
}

export interface Footprint {
  /** Of the first start ever, which compiles, and of the later ones. */
  readonly helpColdMs: number;
  readonly helpMs: number;
  readonly idle: readonly IdleProcess[];
}

export async function runFootprintBench(): Promise<Footprint> {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-footprint-"));
  try {
    const cache = join(folder, "cache");
    const helpColdMs = helpCpuMs(cache);
    const later = Array.from({ length: helpRuns }, () => helpCpuMs(cache)).sort((a, b) => a - b);
    return { helpColdMs, helpMs: later[helpRuns >> 1] as number, idle: await measureIdle(folder) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Asks the child itself, at its end; Node tells nobody else. */
function helpCpuMs(cache: string): number {
  const tell =
    "process.on('exit', () => { const { user, system } = process.cpuUsage(); console.error(JSON.stringify(user + system)); });";
  const preload = `data:text/javascript,${encodeURIComponent(tell)}`;
  const { stderr, status } = spawnSync(process.execPath, ["--import", preload, "bin/dcnr.js", "--help"], {
    encoding: "utf8",
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
  if (status !== 0) throw new Error(`dcnr --help failed: ${stderr}`);
  return Number(stderr.trim().split("\n").at(-1)) / 1000;
}

async function measureIdle(folder: string): Promise<IdleProcess[]> {
  const directory = join(folder, "network");
  const options = { directory, listen: "127.0.0.1:0", pnodes: 1, cpusPerPNode: 1, logLevel: "warn" };
  // The first start compiles and measures the machine; a volunteer's machine starts once and idles for days.
  await (await LocalNetwork.start(options)).stop();
  const network = await LocalNetwork.start(options);
  const processes = [
    { role: "orchestrator", address: network.orchestrator.address } as const,
    ...network.pnodes.map(({ address }) => ({ role: "pnode", address }) as const),
  ];
  try {
    await seconds(settleSeconds);
    const before = await Promise.all(processes.map(({ address }) => read(address)));
    await seconds(idleSeconds);
    const after = await Promise.all(processes.map(({ address }) => read(address)));
    return processes.map(({ role }, index) => ({
      role,
      cpuPercent: (((after[index]?.cpuSeconds ?? 0) - (before[index]?.cpuSeconds ?? 0)) / idleSeconds) * 100,
      megabytes: (after[index]?.bytes ?? 0) / 1e6,
    }));
  } finally {
    await network.stop();
  }
}

async function read(address: string): Promise<{ cpuSeconds: number; bytes: number }> {
  const text = await (await fetch(`http://${address}/metrics`)).text();
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
  return { cpuSeconds: value("process_cpu_seconds_total"), bytes: value("process_resident_memory_bytes") };
}

function seconds(count: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, count * 1000));
}

export async function footprintReport(_args: readonly string[], log: (line: string) => void): Promise<string> {
  log(`starting, then idling for ${idleSeconds} s`);
  const { helpColdMs, helpMs, idle } = await runFootprintBench();
  const targets = { orchestrator: "< 1 %, < 120 MB", pnode: "< 1 %, < 150 MB" };
  const rows = [
    ["`dcnr --help`, first start ever", `${helpColdMs.toFixed(0)} ms of CPU`, "< 150 ms"],
    ["`dcnr --help`, later", `${helpMs.toFixed(0)} ms of CPU`, "< 150 ms"],
    ...idle.map(({ role, cpuPercent, megabytes }) => [
      `an idle ${role === "pnode" ? "PNode" : "orchestrator with one PNode"}`,
      `${cpuPercent.toFixed(2)} % of a core, ${megabytes.toFixed(0)} MB`,
      targets[role],
    ]),
  ];
  const table = rows.map((row) => `| ${row.join(" | ")} |`);
  return ["| what | measured | target |", "|---|---|---|", ...table].join("\n");
}
