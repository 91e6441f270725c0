// How long a thread was not there for anything else. On a machine with other work a thread also waits for the processor, or for
// another thread of the process that does: Node's own lock of finished work is held by a thread that wakes the main one before it lets go,
// and may lose the processor in between. That is nobody's fault here and is told apart by the system's own count, where it keeps one. It
// may wait for several of them, one after the other: what is left is exact on a calm machine, and a lower bound on a busy one.

import { readdirSync, readFileSync } from "node:fs";

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
    const ownMs = (at.queued.get(main) ?? 0) - (this.#at.queued.get(main) ?? 0);
    let othersMs = 0;
    for (const [thread, ms] of at.queued) if (thread !== main) othersMs += ms - (this.#at.queued.get(thread) ?? ms);
    const lateMs = at.ms - this.#at.ms - this.everyMs - busyMs - ownMs - othersMs;
    this.#busyMs = Math.max(this.#busyMs, busyMs);
    this.#blockedMs = Math.max(this.#blockedMs, lateMs);
    this.#at = at;
  }

  /** Between two ticks: time of the processor, and time in which neither the thread worked nor any of the process waited to. */
  longest(): { readonly busyMs: number; readonly blockedMs: number } {
    return { busyMs: this.#busyMs, blockedMs: this.#blockedMs };
  }
}

const main = String(process.pid);

function now() {
  const { user, system } = process.threadCpuUsage();
  return { ms: performance.now(), busyMs: (user + system) / 1000, queued: queuedMs() };
}

/** By thread: for how long it has been ready to run while others had the processor (Linux). */
function queuedMs(): Map<string, number> {
  const queued = new Map<string, number>();
  try {
    for (const thread of readdirSync("/proc/self/task"))
      queued.set(thread, Number(readFileSync(`/proc/self/task/${thread}/schedstat`, "utf8").split(" ")[1]) / 1e6);
  } catch {
    // Another system, or a thread that ended between the two calls: what is known so far counts.
  }
  return queued;
}
