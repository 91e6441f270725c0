// How long a thread was not there for anything else. On a machine with other work a thread also waits for the processor; that
// is nobody's fault here and is told apart by the system's own count, where it keeps one.

import { readFileSync } from "node:fs";

export class Pauses {
  readonly everyMs: number;
  #at = now();
  #busyMs = 0;
  #blockedMs = 0;

  constructor(everyMs: number) {
    this.everyMs = everyMs;
  }

  /** To be called by a timer, every so often. */
  tick(): void {
    const at = now();
    const busyMs = at.busyMs - this.#at.busyMs;
    const lateMs = at.ms - this.#at.ms - this.everyMs - busyMs - (at.queuedMs - this.#at.queuedMs);
    this.#busyMs = Math.max(this.#busyMs, busyMs);
    this.#blockedMs = Math.max(this.#blockedMs, lateMs);
    this.#at = at;
  }

  /** Between two ticks: time of the processor, and time in which the thread neither worked nor waited for the processor. */
  longest(): { readonly busyMs: number; readonly blockedMs: number } {
    return { busyMs: this.#busyMs, blockedMs: this.#blockedMs };
  }
}

function now() {
  const { user, system } = process.threadCpuUsage();
  return { ms: performance.now(), busyMs: (user + system) / 1000, queuedMs: queuedMs() };
}

/** For how long the main thread has been ready to run and others had the processor (Linux). */
function queuedMs(): number {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}
