// How long lanes take for rounds, as one orchestrator has seen it: decides when rounds close and how much each lane is given, never what
// comes of it.

import type { RoundPlan } from "../../../network/rounds.ts";
import type { Ready } from "./round-plan.ts";

interface Seen {
  /** Since when its lanes could learn: the one before was closed, and it was planned. Unknown where another orchestrator did that. */
  beganMs?: number;
  readonly firstMs: number;
  /** When each lane was first seen ready. */
  readonly readyMs: Map<number, number>;
}

export class RoundClock {
  readonly #rounds = new Map<number, Seen>();

  began(round: number, nowMs: number): void {
    this.#of(round, nowMs).beganMs ??= nowMs;
  }

  /** These lanes have learned all they were to; fast ones before the line has come to the round. */
  ready(round: number, lanes: readonly number[], nowMs: number): void {
    const { readyMs } = this.#of(round, nowMs);
    for (const lane of lanes) if (!readyMs.has(lane)) readyMs.set(lane, nowMs);
  }

  /**
   * How long the first lane took, and how long ago that was. `usualMs`: what the first one took before, for who does not know when this
   * one began: late lanes are then given as long, from when somebody is there who waits for them.
   */
  times(round: number, nowMs: number, usualMs = 0): Pick<Ready, "tookMs" | "readyForMs"> {
    const { beganMs, firstMs, readyMs } = this.#of(round, nowMs);
    const first = Math.min(nowMs, ...readyMs.values());
    const tookMs = beganMs === undefined ? Math.max(2 * usualMs, first - firstMs) : first - beganMs;
    return { tookMs, readyForMs: nowMs - first };
  }

  /** Steps in a millisecond, by lane; undefined where nobody here knows when the round began. One that was late is taken to need twice as long as it had. */
  speeds(round: number, lanes: RoundPlan["lanes"], nowMs: number): ReadonlyMap<number, number> | undefined {
    const { beganMs, readyMs } = this.#of(round, nowMs);
    if (beganMs === undefined) return undefined;
    const took = (lane: number) => Math.max(1, (readyMs.get(lane) ?? 2 * nowMs - beganMs) - beganMs);
    return new Map(lanes.map(({ lane, steps }) => [lane, steps / took(lane)]));
  }

  knows(round: number): boolean {
    return this.#rounds.get(round)?.beganMs !== undefined;
  }

  forgetBelow(round: number): void {
    for (const one of this.#rounds.keys()) if (one < round) this.#rounds.delete(one);
  }

  #of(round: number, nowMs: number): Seen {
    const known = this.#rounds.get(round);
    if (known !== undefined) return known;
    const seen: Seen = { firstMs: nowMs, readyMs: new Map() };
    this.#rounds.set(round, seen);
    return seen;
  }
}
