// Decides when a waiting VNode asks for what it misses: soon at first, then ever more rarely, and anew after
// every bit of progress. Also knows since when it waits.

import type { Cancel, World } from "../../core/world.ts";
import type { Timings } from "../options.ts";

export class Impatience {
  readonly #world: World;
  readonly #timings: Timings;
  readonly #onOverdue: (attempt: number) => void;
  #cancel: Cancel = () => {};
  #delayMs: number;
  #attempt = 0;
  #moved = false;
  #sinceMs: number;

  constructor(world: World, timings: Timings, onOverdue: (attempt: number) => void) {
    this.#world = world;
    this.#timings = timings;
    this.#onOverdue = onOverdue;
    this.#delayMs = timings.askMinMs;
    this.#sinceMs = world.clock.monotonicMs();
  }

  /** Something happened: it does not wait for the same thing any more. */
  progress(): void {
    this.#moved = true;
    this.#attempt = 0;
    this.#sinceMs = this.#world.clock.monotonicMs();
  }

  get waitedMs(): number {
    return this.#world.clock.monotonicMs() - this.#sinceMs;
  }

  start(): void {
    this.stop();
    const jitter = 0.8 + 0.4 * this.#world.chance.uniform();
    this.#cancel = this.#world.timers.after(this.#delayMs * jitter, () => this.#fire());
  }

  stop(): void {
    this.#cancel();
  }

  #fire(): void {
    const { askMinMs, askMaxMs } = this.#timings;
    if (this.#moved) this.#delayMs = askMinMs;
    else {
      this.#delayMs = Math.min(this.#delayMs * 2, askMaxMs);
      this.#onOverdue(this.#attempt++);
    }
    this.#moved = false;
    this.start();
  }
}
