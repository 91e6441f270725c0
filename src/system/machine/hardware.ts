// What this machine is: found out by looking, so that nobody has to fill in a form. Inside a container the
// container's limits count, not the host's size.

import { execFile } from "node:child_process";
import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { arch, availableParallelism, cpus, freemem, loadavg, platform, totalmem } from "node:os";
import type { Clock } from "../../core/world.ts";
import { findGpus, type GpuFacts } from "./gpus.ts";

export interface HardwareFacts {
  readonly cpuModel: string;
  /** What this process may use, at least 1; a fraction where a container says so. */
  readonly cores: number;
  readonly memoryBytes: number;
  /** Free in the given directory. */
  readonly diskBytes: number;
  readonly architecture: string;
  readonly platform: string;
  readonly gpus: readonly GpuFacts[];
}

/** The files and numbers of an operating system, passed in so that tests can describe another machine. */
export interface MachineView {
  readText(path: string): string | undefined;
  list(path: string): readonly string[];
  totalMemoryBytes(): number;
  freeMemoryBytes(): number;
  parallelism(): number;
  cpuModel(): string;
  diskFreeBytes(directory: string): number;
  run(command: string, args: readonly string[]): Promise<string | undefined>;
  /** The WebGPU adapter where the runtime offers one: browsers, Deno, Node with a binding. */
  webGpu?(): Promise<GpuFacts | undefined>;
}

/** nvidia-smi may hang on a broken driver; joining must not. */
const commandTimeoutMs = 3000;

export const thisMachine: MachineView = {
  readText(path) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
  list(path) {
    try {
      return readdirSync(path);
    } catch {
      return [];
    }
  },
  totalMemoryBytes: totalmem,
  freeMemoryBytes: freemem,
  parallelism: availableParallelism,
  cpuModel: () => cpus()[0]?.model.trim() ?? "",
  diskFreeBytes(directory) {
    try {
      const { bavail, bsize } = statfsSync(directory);
      return bavail * bsize;
    } catch {
      return 0;
    }
  },
  webGpu: webGpuAdapter,
  run: (command, args) =>
    new Promise<string | undefined>((resolve) => {
      execFile(command, [...args], { timeout: commandTimeoutMs, windowsHide: true }, (error, stdout) =>
        resolve(error ? undefined : stdout),
      );
      // Thrown, not told, where this process may start none.
    }).catch(() => undefined),
};

interface WebGpu {
  requestAdapter(): Promise<{
    readonly info?: { vendor?: string; description?: string };
    readonly limits: { maxBufferSize: number };
  } | null>;
}

async function webGpuAdapter(): Promise<GpuFacts | undefined> {
  const gpu = (globalThis.navigator as { readonly gpu?: WebGpu } | undefined)?.gpu;
  const adapter = await gpu?.requestAdapter().catch(() => null);
  if (!adapter) return undefined;
  // WebGPU tells no memory size; what one buffer may hold is a lower bound.
  const { vendor = "unknown", description = "" } = adapter.info ?? {};
  return { model: description || "WebGPU adapter", memoryBytes: adapter.limits.maxBufferSize, vendor };
}

export async function findHardware(directory: string, machine: MachineView = thisMachine): Promise<HardwareFacts> {
  return {
    cpuModel: machine.cpuModel() || "unknown",
    ...machineSize(machine),
    diskBytes: machine.diskFreeBytes(directory),
    architecture: arch(),
    platform: platform(),
    gpus: await findGpus(machine),
  };
}

/** What may be used of it, at once and without asking any program. */
export function machineSize(machine: MachineView = thisMachine): Pick<HardwareFacts, "cores" | "memoryBytes"> {
  return {
    cores: Math.max(1, Math.min(machine.parallelism(), cpuLimit(machine))),
    memoryBytes: Math.min(machine.totalMemoryBytes(), memoryLimit(machine)),
  };
}

/** cgroup version 2 first, then version 1; infinity where nothing limits. */
function memoryLimit(machine: MachineView): number {
  for (const path of ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]) {
    const limit = Number(machine.readText(path)?.trim());
    if (Number.isFinite(limit) && limit > 0) return limit;
  }
  return Number.POSITIVE_INFINITY;
}

function cpuLimit(machine: MachineView): number {
  const [quota, period] = (machine.readText("/sys/fs/cgroup/cpu.max") ?? "").trim().split(" ").map(Number);
  if (quota && period && quota > 0) return quota / period;
  const oldQuota = Number(machine.readText("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
  const oldPeriod = Number(machine.readText("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  return oldQuota > 0 && oldPeriod > 0 ? oldQuota / oldPeriod : Number.POSITIVE_INFINITY;
}

export interface HealthFacts {
  /** The hottest sensor; undefined where the machine shows none. */
  readonly temperatureCelsius?: number;
  /** Runnable processes over the last minute, per core; 0 on Windows, which keeps no such number. */
  readonly loadPerCore: number;
  readonly memoryFreeBytes: number;
}

export function readHealth(machine: MachineView = thisMachine): HealthFacts {
  const temperatureCelsius = hottest(machine);
  return {
    ...(temperatureCelsius === undefined ? {} : { temperatureCelsius }),
    loadPerCore: (loadavg()[0] ?? 0) / machine.parallelism(),
    memoryFreeBytes: memoryFree(machine),
  };
}

function memoryFree(machine: MachineView): number {
  const available = /^MemAvailable:\s+(\d+) kB/m.exec(machine.readText("/proc/meminfo") ?? "")?.[1];
  const free = available === undefined ? machine.freeMemoryBytes() : Number(available) * 1024;
  const used = Number(machine.readText("/sys/fs/cgroup/memory.current"));
  const limit = memoryLimit(machine);
  return Number.isFinite(limit) && used > 0 ? Math.max(0, Math.min(free, limit - used)) : free;
}

function hottest(machine: MachineView): number | undefined {
  const root = "/sys/class/thermal";
  const degrees = machine
    .list(root)
    .filter((zone) => zone.startsWith("thermal_zone"))
    .map((zone) => Number(machine.readText(`${root}/${zone}/temp`) ?? Number.NaN) / 1000)
    .filter((celsius) => celsius > 0 && celsius < 150);
  return degrees.length === 0 ? undefined : Math.max(...degrees);
}

/**
 * GFLOP/s of one core on the given work, the best of several short tries: other load only ever slows a try down.
 * `work` does `flops` floating-point operations each time it is called.
 */
export async function measureGflops(
  work: () => Promise<void> | void,
  flops: number,
  clock: Clock,
  tries = 5,
): Promise<number> {
  let best = 0;
  await work();
  for (let i = 0; i < tries; i++) {
    const start = clock.monotonicMs();
    await work();
    const elapsedMs = Math.max(clock.monotonicMs() - start, 0.001);
    best = Math.max(best, flops / (elapsedMs * 1e6));
  }
  return best;
}
