// The processes of a machine that is lent as people lend it, by the one that they have started: the front, whose children the gate and the PNode are.

import { readdirSync, readFileSync } from "node:fs";

export interface LentProcesses {
  readonly gate?: number;
  readonly pnode?: number;
}

/** Those that are there by now, where the system has /proc. */
export function lentProcesses(front: number): LentProcesses {
  const found: { gate?: number; pnode?: number } = {};
  for (const pid of processes()) {
    if (standingOf(pid)?.parent !== front) continue;
    const command = ofProcess(pid, "cmdline");
    if (/gate-process\.[tj]s\0/.test(command)) found.gate = pid;
    else if (command.includes("\0--permission\0") && !command.includes("unshare\0")) found.pnode = pid;
  }
  return found;
}

function processes(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

export interface Standing {
  readonly parent: number;
  readonly session: number;
  /** The number of its controlling terminal; 0: it has none. */
  readonly terminal: number;
}

/** Undefined where there is no such process, or what is left of one that has ended. */
export function standingOf(pid: number): Standing | undefined {
  // The name before it, which ends with a bracket, may be anything.
  const [state, parent, , session, terminal] = ofProcess(pid, "stat")
    .replace(/^.*\) /s, "")
    .split(" ");
  if (parent === undefined || state === "Z") return undefined;
  return { parent: Number(parent), session: Number(session), terminal: Number(terminal) };
}

export function ofProcess(pid: number, file: "cmdline" | "environ" | "stat"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
