// Work in the background that never leaves a rejection unhandled and ends with the orchestrator: repeated
// tasks, one-off tasks, and tasks of which only the newest request matters.

import { hasCode, messageOf } from "../core/errors.ts";
import { retry } from "../core/retry.ts";
import { type Cancel, every, type World } from "../core/world.ts";

const insistence = { minMs: 500, maxMs: 10_000 };

export class Tasks {
  readonly #world: World;
  readonly #running = new Set<Promise<void>>();
  readonly #cancels = new Set<Cancel>();
  readonly #stopping = new AbortController();

  constructor(world: World) {
    this.#world = world;
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  get stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Starts `work` now; a failure is logged, since nobody waits for it. */
  run(name: string, work: () => Promise<unknown>): void {
    if (this.stopped) return;
    const task = this.#contained(name, work).finally(() => this.#running.delete(task));
    this.#running.add(task);
  }

  /** As `run`, for what nobody will ask for again: a store that is away for a while only makes it later. */
  insist(name: string, work: () => Promise<unknown>): void {
    const { signal } = this;
    this.run(name, () => retry({ world: this.#world, ...insistence, signal }, work));
  }

  every(name: string, intervalMs: number, work: () => unknown): void {
    const task = () => this.#contained(name, async () => work());
    this.#cancels.add(every(this.#world.timers, intervalMs, task));
  }

  /** Calls back once after `delayMs`, unless cancelled or stopped. */
  after(delayMs: number, callback: () => void): Cancel {
    if (this.stopped) return () => {};
    const cancel = this.#world.timers.after(delayMs, () => {
      this.#cancels.delete(cancel);
      if (!this.stopped) callback();
    });
    this.#cancels.add(cancel);
    return () => {
      this.#cancels.delete(cancel);
      cancel();
    };
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
    await Promise.all(this.#running);
  }

  async #contained(name: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      if (this.stopped) return;
      // An unreachable store is said once, by health; everything else deserves a line of its own.
      const level = hasCode(thrown, "unavailable") ? "debug" : "error";
      this.#world.log(level, `${name} failed: ${messageOf(thrown)}`);
    }
  }
}

/** Runs `work` for a key, one at a time; requests during a run lead to exactly one more run. */
export class Latest<K extends string> {
  readonly #tasks: Tasks;
  readonly #name: string;
  readonly #work: (key: K) => Promise<void>;
  readonly #states = new Map<K, "running" | "again">();

  constructor(tasks: Tasks, name: string, work: (key: K) => Promise<void>) {
    this.#tasks = tasks;
    this.#name = name;
    this.#work = work;
  }

  request(key: K): void {
    if (this.#states.has(key)) {
      this.#states.set(key, "again");
      return;
    }
    this.#states.set(key, "running");
    this.#tasks.run(`${this.#name} of ${key}`, () => this.#loop(key));
  }

  async #loop(key: K): Promise<void> {
    try {
      do {
        this.#states.set(key, "running");
        await this.#work(key);
      } while (this.#states.get(key) === "again" && !this.#tasks.stopped);
    } finally {
      this.#states.delete(key);
    }
  }
}

/** Runs `work` over `items` with at most `atOnce` in flight; the first failure is thrown after all ended. */
export async function forEachAtOnce<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const failures: unknown[] = [];
  const lane = async () => {
    while (next < items.length) {
      const item = items[next++] as T;
      try {
        await work(item);
      } catch (thrown) {
        failures.push(thrown);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
  if (failures.length > 0) throw failures[0];
}
