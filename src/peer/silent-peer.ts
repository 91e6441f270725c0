// For how long a peer has not answered although it is called. Only calls count: one that nobody needs is not failing.

import type { Clock } from "../core/world.ts";

/** One who misses something asks at least this often. */
const calledMs = 5_000;

export class SilentPeer {
  readonly #clock: Clock;
  #sinceMs: number | undefined;
  #calledMs = 0;
  /** A call is under way and does not come to an end. */
  waiting = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  called(): void {
    const nowMs = this.#clock.monotonicMs();
    // What failed long ago says nothing about now.
    if (!this.#isCalled(nowMs)) this.#sinceMs = undefined;
    this.#calledMs = nowMs;
  }

  /** A connection to it broke; whoever used that will call again. */
  broke(): void {
    this.#calledMs = this.#clock.monotonicMs();
    this.#sinceMs ??= this.#calledMs;
  }

  answered(): void {
    this.#sinceMs = undefined;
  }

  /** 0 while it answers, or nobody calls it. */
  get failingMs(): number {
    const nowMs = this.#clock.monotonicMs();
    return this.#sinceMs !== undefined && this.#isCalled(nowMs) ? nowMs - this.#sinceMs : 0;
  }

  #isCalled(nowMs: number): boolean {
    return this.waiting || nowMs - this.#calledMs <= calledMs;
  }
}
