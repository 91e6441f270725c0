// Throttles PNodes that register again and again: a machine that comes and goes a hundred times a minute must
// cost the others nothing, and everybody should see that it does.

import type { Clock } from "../core/world.ts";

const windowMs = 60_000;
/** A PNode that changes orchestrators during an outage may need a few attempts. */
const registrationsPerWindowMax = 12;
/** Placement prefers PNodes below it. */
const flappingFrom = 4;
/** Bounds memory if someone invents ids. */
const tracked = 100_000;

export class Flapping {
  readonly #clock: Clock;
  readonly #times = new Map<string, number[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes an attempt; returns how long the PNode must wait, or 0. Refused attempts prolong the wait. */
  attempt(pnode: string): number {
    const nowMs = this.#clock.monotonicMs();
    const times = this.#recent(pnode, nowMs);
    times.push(nowMs);
    if (times.length > 2 * registrationsPerWindowMax) times.shift();
    this.#times.delete(pnode);
    this.#times.set(pnode, times);
    if (this.#times.size > tracked) {
      const oldest = this.#times.keys().next().value;
      if (oldest !== undefined) this.#times.delete(oldest);
    }
    if (times.length <= registrationsPerWindowMax) return 0;
    const frees = times[times.length - registrationsPerWindowMax] as number;
    return Math.max(1, frees + windowMs - nowMs);
  }

  count(pnode: string): number {
    return this.#recent(pnode, this.#clock.monotonicMs()).length;
  }

  isFlapping(pnode: string): boolean {
    return this.#times.has(pnode) && this.count(pnode) >= flappingFrom;
  }

  #recent(pnode: string, nowMs: number): number[] {
    return (this.#times.get(pnode) ?? []).filter((atMs) => nowMs - atMs < windowMs);
  }
}
