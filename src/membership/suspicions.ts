// Who did not answer, and until when it may say that it lives. The time shrinks with every member that confirms on its own,
// as in Lifeguard: one accuser alone may be the one whose line is bad.

import type { Accusation, MemberId } from "./member.ts";
import type { MembershipTimings } from "./timings.ts";

interface Suspicion {
  readonly sequence: number;
  startMs: number;
  deadlineMs: number;
  /** When it was heard of, however long this process stood still since. */
  readonly heardMs: number;
  /** Places of those who saw it by themselves. */
  readonly by: number[];
  /** Somebody's patience was over. */
  buried: boolean;
}

/** Of a suspect's time, in which its answer may still be on its way. */
const unquestionedShare = 0.3;

export class Suspicions {
  readonly #timings: MembershipTimings;
  readonly #byId = new Map<MemberId, Suspicion>();

  constructor(timings: MembershipTimings) {
    this.#timings = timings;
  }

  get size(): number {
    return this.#byId.size;
  }

  has(id: MemberId): boolean {
    return this.#byId.has(id);
  }

  ids(): IterableIterator<MemberId> {
    return this.#byId.keys();
  }

  /** True if it is new, so that others should hear of it. */
  accuse({ id, sequence, by, kind }: Accusation, members: number, nowMs: number): boolean {
    const known = this.#byId.get(id);
    if (known === undefined || known.sequence !== sequence) {
      const suspicion = { sequence, startMs: nowMs, heardMs: nowMs, deadlineMs: 0, by: [by], buried: kind === "dead" };
      suspicion.deadlineMs = nowMs + this.#patienceMs(suspicion, members);
      this.#byId.set(id, suspicion);
      return true;
    }
    const confirms = !known.by.includes(by) && known.by.length <= this.#confirmations(members);
    const buries = kind === "dead" && !known.buried;
    if (!confirms && !buries) return false;
    if (confirms) known.by.push(by);
    known.buried ||= buries;
    // Whoever has buried it has had the patience that this process may have slept through.
    const sinceMs = known.buried ? known.heardMs : known.startMs;
    known.deadlineMs = Math.min(known.deadlineMs, sinceMs + this.#patienceMs(known, members));
    return true;
  }

  /**
   * Those of whom this member asks others before their time is up, the next to be buried first: told once more as they were told,
   * so that they confirm nothing. Whoever knows that one of them has answered for itself says so.
   */
  questioned(nowMs: number, count: number): Accusation[] {
    const questioned: { readonly accusation: Accusation; readonly deadlineMs: number }[] = [];
    for (const [id, { sequence, by, heardMs, startMs, deadlineMs }] of this.#byId) {
      const sinceMs = Math.max(heardMs, startMs);
      if (nowMs - sinceMs < (deadlineMs - sinceMs) * unquestionedShare) continue;
      questioned.push({ accusation: { kind: "suspect", id, sequence, by: by[0] as number }, deadlineMs });
    }
    questioned.sort((one, other) => one.deadlineMs - other.deadlineMs);
    return questioned.slice(0, count).map(({ accusation }) => accusation);
  }

  drop(id: MemberId): void {
    this.#byId.delete(id);
  }

  /**
   * Those whose time is up, who are suspects no more. A member with reason to doubt itself may have missed that one has answered for
   * itself: it waits as long again, unless somebody else's patience is over.
   */
  due(nowMs: number, doubts: boolean, members: number): { readonly id: MemberId; readonly sequence: number }[] {
    const due: { id: MemberId; sequence: number }[] = [];
    const againMs = doubts ? this.#leastMs(members) : 0;
    for (const [id, { deadlineMs, sequence, buried }] of this.#byId)
      if (deadlineMs + (buried ? 0 : againMs) <= nowMs) due.push({ id, sequence });
    for (const { id } of due) this.#byId.delete(id);
    return due;
  }

  /** The process stood still itself: for that long nobody was silent. */
  move(byMs: number): void {
    for (const suspicion of this.#byId.values()) {
      if (suspicion.buried) continue;
      suspicion.startMs += byMs;
      suspicion.deadlineMs += byMs;
    }
  }

  #confirmations(members: number): number {
    return Math.max(0, Math.min(this.#timings.confirmations, members - 3));
  }

  #leastMs(members: number): number {
    const { suspectPeriods, periodMs } = this.#timings;
    return suspectPeriods * Math.max(1, Math.log10(members)) * periodMs;
  }

  #patienceMs({ by, buried }: Suspicion, members: number): number {
    const { suspectStretch } = this.#timings;
    const leastMs = this.#leastMs(members);
    const needed = this.#confirmations(members);
    if (needed === 0 || buried) return leastMs;
    const mostMs = suspectStretch * leastMs;
    return Math.max(leastMs, mostMs - ((mostMs - leastMs) * Math.log(by.length)) / Math.log(needed + 1));
  }
}
