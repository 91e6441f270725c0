// Delivers watch hints within one process: who watches which prefix, and which keys changed since the last
// delivery. Backends feed it with their own writes and with what they learn about other processes' writes.

import type { Cancel, Timers } from "../../core/world.ts";

type OnHint = (keys: readonly string[]) => void;

export class Hints {
  readonly #watchers = new Set<{ prefix: string; onHint: OnHint }>();
  #pending = new Set<string>();

  get watched(): boolean {
    return this.#watchers.size > 0;
  }

  watch(prefix: string, onHint: OnHint): Cancel {
    const watcher = { prefix, onHint };
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /** Delivers after the current call stack, so that a writer never runs its watchers' code. */
  changed(keys: Iterable<string>): void {
    if (!this.watched) return;
    if (this.#pending.size === 0) queueMicrotask(() => this.#deliver());
    for (const key of keys) this.#pending.add(key);
  }

  #deliver(): void {
    const keys = [...this.#pending];
    this.#pending = new Set();
    for (const { prefix, onHint } of [...this.#watchers]) {
      const matching = prefix === "" ? keys : keys.filter((key) => key.startsWith(prefix));
      if (matching.length > 0) onHint(matching);
    }
  }

  clear(): void {
    this.#watchers.clear();
  }
}

/** Gathers keys for a moment, so that many writes cost one message to other processes. */
export class HintSender {
  readonly #timers: Timers;
  readonly #delayMs: number;
  readonly #send: (keys: readonly string[]) => Promise<void>;
  #keys = new Set<string>();
  #cancel: Cancel | undefined;

  constructor(timers: Timers, delayMs: number, send: (keys: readonly string[]) => Promise<void>) {
    this.#timers = timers;
    this.#delayMs = delayMs;
    this.#send = send;
  }

  add(key: string): void {
    this.#keys.add(key);
    this.#cancel ??= this.#timers.after(this.#delayMs, () => void this.flush());
  }

  /** A hint that cannot be sent is a hint that is missed, which watchers must bear anyway. */
  async flush(): Promise<void> {
    this.#cancel?.();
    this.#cancel = undefined;
    const keys = [...this.#keys];
    this.#keys = new Set();
    if (keys.length > 0) await this.#send(keys).catch(() => {});
  }
}
