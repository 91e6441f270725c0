// Timers that fire when a test says so.

import type { Cancel, Timers } from "../../core/world.ts";

export class ManualTimers implements Timers {
  readonly #waiting = new Map<number, { readonly dueMs: number; readonly callback: () => void }>();
  #nowMs = 0;
  #next = 0;

  after(delayMs: number, callback: () => void): Cancel {
    const id = this.#next++;
    this.#waiting.set(id, { dueMs: this.#nowMs + delayMs, callback });
    return () => this.#waiting.delete(id);
  }

  get count(): number {
    return this.#waiting.size;
  }

  /** Fires what is due on the way, in order. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const [first] = [...this.#waiting].sort(([a, x], [b, y]) => x.dueMs - y.dueMs || a - b);
      if (first === undefined || first[1].dueMs > untilMs) break;
      this.#waiting.delete(first[0]);
      this.#nowMs = first[1].dueMs;
      first[1].callback();
    }
    this.#nowMs = untilMs;
  }
}
