// Throttles PNodes that register again and again: a machine that comes and goes a hundred times a minute must
// cost the others nothing, and everybody should see that it does.

import { Recent } from "../../../core/caches/recent.ts";
import type { Clock } from "../../../core/world.ts";

const windowMs = 60_000;
/** A PNode that changes orchestrators during an outage may need a few attempts. */
const registrationsPerWindowMax = 12;
/** Placement prefers PNodes below it. */
const flappingFrom = 4;
/** Bounds memory if someone invents ids. */
const tracked = 100_000;

interface Attempts {
  readonly accepted: number[];
  /** Seen, but they do not prolong the wait: a PNode that tries again every second must come in some time. */
  readonly refused: number[];
}

export class Flapping {
  readonly #clock: Clock;
  readonly #attempts = new Recent<string, Attempts>(tracked);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes an attempt; returns how long the PNode must wait, or 0. */
  attempt(pnode: string): number {
    const nowMs = this.#clock.monotonicMs();
    const { accepted, refused } = this.#recent(pnode, nowMs);
    const frees = accepted[accepted.length - registrationsPerWindowMax];
    (frees === undefined ? accepted : refused).push(nowMs);
    if (refused.length > 2 * registrationsPerWindowMax) refused.shift();
    this.#attempts.set(pnode, { accepted, refused });
    return frees === undefined ? 0 : Math.max(1, frees + windowMs - nowMs);
  }

  count(pnode: string): number {
    const { accepted, refused } = this.#recent(pnode, this.#clock.monotonicMs());
    return accepted.length + refused.length;
  }

  isFlapping(pnode: string): boolean {
    return this.#attempts.has(pnode) && this.count(pnode) >= flappingFrom;
  }

  #recent(pnode: string, nowMs: number): Attempts {
    const recent = (times: readonly number[] = []) => times.filter((atMs) => nowMs - atMs < windowMs);
    const known = this.#attempts.get(pnode);
    return { accepted: recent(known?.accepted), refused: recent(known?.refused) };
  }
}
