// Lets streams of the API wait for changes: woken by any change, at most so often, at least so often, and ended
// with the caller or the orchestrator.

import type { Timers } from "../../core/world.ts";

export class Bell {
  #waiting = new Set<() => void>();

  ring(): void {
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const wake of waiting) wake();
  }

  /** Resolves at the next ring, after `timeoutMs`, or when one of the signals aborts. */
  wait(timers: Timers, timeoutMs: number, ...signals: AbortSignal[]): Promise<void> {
    return new Promise((resolve) => {
      if (signals.some((signal) => signal.aborted)) return resolve();
      const done = () => {
        cancel();
        this.#waiting.delete(done);
        for (const signal of signals) signal.removeEventListener("abort", done);
        resolve();
      };
      const cancel = timers.after(timeoutMs, done);
      this.#waiting.add(done);
      for (const signal of signals) signal.addEventListener("abort", done, { once: true });
    });
  }
}
