// What lanes do in the next round, and whether a round may close: pure functions of what is recorded and measured. Every microbatch of the
// data is given out in order; those of lanes that were late come first in a later plan.

import type { SessionId } from "../../../core/ids.ts";
import { type LanePlan, type Range, type Round, roundOf } from "../../../network/rounds.ts";
import type { SessionIdentity } from "../../../network/settings/session.ts";
import type { ClosingRecord, RoundRecord } from "../../records/rounds.ts";

/** Lanes that are this near to the fastest take as many steps: less is noise. */
const alikeShare = 0.85;

export interface Planning {
  readonly session: SessionId;
  readonly identity: Pick<SessionIdentity, "steps" | "lanes" | "microbatches"> &
    Required<Pick<SessionIdentity, "sync">>;
  readonly round: number;
  /** The round before, and the closings of those whose leavings nobody has collected; absent before the first. */
  readonly before?: {
    readonly plan: RoundRecord;
    readonly plans: readonly RoundRecord[];
    readonly closings: readonly ClosingRecord[];
  };
  /** Lanes that can take part, with the class they compute in and their steps in a millisecond, where that was measured. */
  readonly lanes: readonly { readonly lane: number; readonly class: string; readonly speed?: number | undefined }[];
}

export function planRound({ session, identity, round, before, lanes }: Planning): RoundRecord {
  const each = identity.microbatches / (identity.lanes ?? 1);
  const pool = poolFor(identity, before);
  const all = stepsOf(roundOf(identity, round));
  const fastest = Math.max(0, ...lanes.map(({ speed = 0 }) => speed));
  const plans = [...lanes]
    .sort((a, b) => a.lane - b.lane)
    .map(({ lane, class: own, speed }): LanePlan => {
      const steps = stepsFor(all, speed, fastest);
      return { lane, steps, class: own, samples: pool.take(steps * each) };
    });
  return { session, round, lanes: plans, next: pool.next, left: pool.left, collected: pool.collected };
}

function stepsOf({ first, last }: Round): number {
  return last - first;
}

/** As many of the round's steps as it is fast. */
function stepsFor(all: number, speed: number | undefined, fastest: number): number {
  if (speed === undefined || fastest === 0 || speed >= alikeShare * fastest) return all;
  return Math.min(all, Math.max(1, Math.round((all * speed) / fastest)));
}

/** What may be given out: leavings first, then what nobody has had. */
class Pool {
  next: number;
  left: Range[];
  readonly collected: number;

  constructor(next: number, left: readonly Range[], collected: number) {
    this.next = next;
    this.left = [...left];
    this.collected = collected;
  }

  take(count: number): Range[] {
    const taken: Range[] = [];
    let missing = count;
    while (missing > 0 && this.left.length > 0) {
      const [first, size] = this.left.shift() as Range;
      const used = Math.min(size, missing);
      taken.push([first, used]);
      if (used < size) this.left.unshift([first + used, size - used]);
      missing -= used;
    }
    if (missing > 0) {
      taken.push([this.next, missing]);
      this.next += missing;
    }
    return taken;
  }
}

function poolFor(identity: Planning["identity"], before: Planning["before"]): Pool {
  if (before === undefined) return new Pool(identity.sync.after * identity.microbatches, [], 0);
  const { plan, plans, closings } = before;
  const left = [...plan.left];
  let { collected } = plan;
  for (;;) {
    const closing = closings.find(({ round }) => round === collected);
    const closed = plans.find(({ round }) => round === collected);
    if (closing === undefined || closed === undefined) break;
    left.push(...leavings(closed, closing));
    collected++;
  }
  return new Pool(plan.next, left, collected);
}

/** The samples of lanes whose work did not count. */
export function leavings({ lanes }: RoundRecord, { counted }: ClosingRecord): Range[] {
  return lanes.filter(({ lane }) => !counted.includes(lane)).flatMap(({ samples }) => samples);
}

export interface Ready {
  readonly planned: readonly number[];
  readonly ready: readonly number[];
  /** How long the first lane took, or all have if none is ready, and for how long it has been. */
  readonly tookMs: number;
  readonly readyForMs: number;
  /** So many that are planned can be ready nowhere here. */
  readonly stranded?: number;
}

/** A late lane has half of what the fastest took again, and never less than this: a machine that restarts is back by then. */
const waitMsLeast = 10_000;

export function waitMsFor({ tookMs }: Pick<Ready, "tookMs">): number {
  return Math.max(waitMsLeast, tookMs / 2);
}

/** At least half of those that are planned, and can be ready, have to count. */
export function isQuorum(ready: number, planned: number): boolean {
  return ready > 0 && 2 * ready >= planned;
}

/** The lanes that count if the round closes now; undefined while it waits. */
export function closingNow(of: Ready): readonly number[] | undefined {
  const { planned, ready, readyForMs, stranded = 0 } = of;
  if (planned.every((lane) => ready.includes(lane))) return planned;
  return isQuorum(ready.length, planned.length - stranded) && readyForMs >= waitMsFor(of)
    ? planned.filter((lane) => ready.includes(lane))
    : undefined;
}
