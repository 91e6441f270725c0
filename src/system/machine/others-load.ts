// How much of the processor other programs use: what all cores did, without what this process did.

import { cpus } from "node:os";

export interface CpuTimes {
  /** Milliseconds of all cores since the machine started. */
  readonly busyMs: number;
  readonly totalMs: number;
  /** Of this process. */
  readonly ownMs: number;
}

export function readCpuTimes(): CpuTimes {
  let busyMs = 0;
  let totalMs = 0;
  for (const { times } of cpus()) {
    const busy = times.user + times.nice + times.sys + times.irq;
    busyMs += busy;
    totalMs += busy + times.idle;
  }
  return { busyMs, totalMs, ownMs: ownCpuMs() };
}

/** CPU time of all threads of this process. */
export function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Share of all cores that others used between two readings, 0 to 1. */
export function othersLoad(before: CpuTimes, after: CpuTimes): number {
  const totalMs = after.totalMs - before.totalMs;
  if (totalMs <= 0) return 0;
  const othersMs = after.busyMs - before.busyMs - (after.ownMs - before.ownMs);
  return Math.max(0, Math.min(1, othersMs / totalMs));
}
