// Lets streams of the API wait for changes: woken by any change, at most so often, at least so often, and ended
// with the caller or the orchestrator.

import { fail } from "../../core/errors.ts";
import type { Timers } from "../../core/world.ts";
import { Shares, shareOf } from "../../protocol/server/shares.ts";

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

/** What has happened since a watcher was last told. Whoever does not read is not remembered everything for: the oldest goes. */
export class Backlog<T> {
  readonly #max: number;
  #kept: T[];

  constructor(max: number, first: readonly T[] = []) {
    this.#max = max;
    this.#kept = first.slice(-max);
  }

  add(items: readonly T[]): void {
    for (const item of items) this.#kept.push(item);
    // Twice as many before any are let go, so that this costs little for each.
    if (this.#kept.length > 2 * this.#max) this.#kept = this.#kept.slice(-this.#max);
  }

  take(): T[] {
    const taken = this.#kept.slice(-this.#max);
    this.#kept = [];
    return taken;
  }
}

/** For one watcher, of the network or of a session. */
export const backlogMax = { events: 1_000, metrics: 20_000 } as const;

/** Streams that are told of every change: a person has a few, and each costs a look at everything several times a second. */
const watchersPerAddress = 64;
const watchersMax = 2_000;

export class Watchers {
  readonly #shares = new Shares(watchersPerAddress, watchersMax);

  /** Fails with `resource_exhausted` where there are too many. Gives what is to be called when it ends. */
  enter(address: string): () => void {
    const share = shareOf(address);
    if (!this.#shares.take(share))
      fail("resource_exhausted", "too many are watching already: end one, or ask again later");
    return () => this.#shares.give(share);
  }
}
