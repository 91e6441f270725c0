// What must hold of the records of rounds: they are written once, a closing names lanes of its plan, and every sample is learned from
// exactly once. From the records alone, whatever happened on the way.

import type { Range, ToldRound } from "../../src/network/rounds.ts";
import type { ClosingRecord, RoundRecord } from "../../src/orchestrator/records/rounds.ts";
import { leavings } from "../../src/orchestrator/sessions/rounds/round-plan.ts";

export class RoundChecker {
  readonly plans = new Map<number, RoundRecord>();
  readonly closings = new Map<number, ClosingRecord>();
  readonly #tell: (message: string) => void;

  constructor(tell: (message: string) => void) {
    this.#tell = tell;
  }

  /** A record of this session was written. */
  wrote(kind: "round" | "closing", record: RoundRecord | ClosingRecord): void {
    const all: Map<number, object> = kind === "round" ? this.plans : this.closings;
    const before = all.get(record.round);
    if (before !== undefined) this.#tell(`the ${kind} record of round ${record.round} was written again`);
    if (kind === "closing" && !this.plans.has(record.round))
      this.#tell(`round ${record.round} closes before it is planned`);
    all.set(record.round, record);
  }

  get rounds(): ToldRound[] {
    return [...this.plans.values()].map(({ round, lanes }) => {
      const counted = this.closings.get(round)?.counted;
      return { round, lanes, ...(counted && { counted }) };
    });
  }

  /** `first`: microbatches that lanes learned from together, before the first round. */
  finish(first: number): void {
    for (const { round, counted } of this.closings.values()) {
      const planned = this.plans.get(round)?.lanes.map(({ lane }) => lane) ?? [];
      if (counted.length === 0 || !counted.every((lane) => planned.includes(lane)))
        this.#tell(`in round ${round} lanes ${counted.join(", ")} count, of ${planned.join(", ")}`);
    }
    const last = [...this.plans.values()].at(-1);
    if (last === undefined) return;
    for (const problem of partition(this.#used(last), first, last.next)) this.#tell(problem);
  }

  /** What lanes that count learned from, and what waits to be given out again. */
  #used(last: RoundRecord): Range[] {
    const closed = [...this.plans.values()].flatMap((plan) => {
      const closing = this.closings.get(plan.round);
      const counted = plan.lanes.filter(({ lane }) => closing?.counted.includes(lane) ?? true);
      const waiting = closing && plan.round >= last.collected ? leavings(plan, closing) : [];
      return [...counted.flatMap(({ samples }) => samples), ...waiting];
    });
    return [...closed, ...last.left];
  }
}

/** What is wrong with ranges that are to cover everything from `first` to `end` exactly once. */
export function partition(ranges: readonly Range[], first: number, end: number): string[] {
  let at = first;
  for (const [from, count] of [...ranges].sort(([a], [b]) => a - b)) {
    if (from < at) return [`microbatch ${from} is learned from twice`];
    if (from > at) return [`microbatches ${at} to ${from - 1} are learned from by nobody`];
    at = from + count;
  }
  return at === end ? [] : [`microbatches end at ${at} instead of ${end}`];
}
