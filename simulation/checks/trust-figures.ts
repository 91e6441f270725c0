// What the worlds in which machines lie come to in numbers: how long a machine that always lies stays in, and how much of what is final
// is wrong. Counted over the seeds of a run, for sessions of which only samples are checked.

import type { IntervalRecord, StandingRecord } from "../../src/orchestrator/records/checking.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { type Behaviour, constantLiars } from "../lies/byzantine.ts";
import type { Records } from "./records.ts";

export interface TrustFigures {
  /** For each machine that always lies and computed something: intervals that it took part in until it was out. */
  readonly intervalsUntilOut: readonly number[];
  /** Those that were never found. */
  readonly neverOut: number;
  /** Intervals of single VNodes that are final, and how many of them are a liar's and wrong. */
  readonly finalIntervals: number;
  readonly wrongIntervals: number;
}

/** Whether a session's root after a step is what it comes to undisturbed; undefined where nobody knows. */
export type IsRight = (session: SessionRecord, step: number, root: string) => boolean | undefined;

export class TrustCounter {
  readonly #records: Records;
  readonly #behaviours: ReadonlyMap<string, Behaviour>;
  readonly #isRight: IsRight;
  /** By liar: the intervals that it took part in. */
  readonly #taken = new Map<string, Set<string>>();
  readonly #out = new Map<string, number>();
  #final = 0;
  #wrong = 0;

  constructor(records: Records, behaviours: ReadonlyMap<string, Behaviour>, isRight: IsRight) {
    this.#records = records;
    this.#behaviours = behaviours;
    this.#isRight = isRight;
  }

  interval({ session, to, turn, owners }: IntervalRecord): void {
    if (this.#records.session(session)?.policy.assurance !== "sampled") return;
    for (const owner of Object.values(owners)) {
      const behaviour = this.#behaviours.get(owner);
      if (behaviour === undefined || !constantLiars.has(behaviour) || this.#out.has(owner)) continue;
      const taken = this.#taken.get(owner) ?? new Set();
      this.#taken.set(owner, taken.add(`${session} ${to} ${turn}`));
    }
  }

  standing({ pnode, barred, excluded }: StandingRecord): void {
    const taken = this.#taken.get(pnode);
    const isOut = (barred !== undefined && barred.kind !== "doubt") || excluded.length > 0;
    if (taken !== undefined && isOut && !this.#out.has(pnode)) this.#out.set(pnode, taken.size);
  }

  /** Before what is final moves on, `intervals` being those that it passes. */
  final(session: SessionRecord, intervals: readonly IntervalRecord[]): void {
    if (session.policy.assurance !== "sampled") return;
    for (const { to, root, owners } of intervals) {
      const all = Object.values(owners);
      this.#final += all.length;
      if (this.#isRight(session, to, root) !== false) continue;
      // Everything after a lie differs; those who lied themselves are wrong.
      this.#wrong += all.filter((owner) => this.#behaviours.get(owner) !== undefined).length;
    }
  }

  get figures(): TrustFigures {
    return {
      intervalsUntilOut: [...this.#out.values()],
      neverOut: [...this.#taken.keys()].filter((pnode) => !this.#out.has(pnode)).length,
      finalIntervals: this.#final,
      wrongIntervals: this.#wrong,
    };
  }
}

export function addFigures(a: TrustFigures | undefined, b: TrustFigures | undefined): TrustFigures | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return {
    intervalsUntilOut: [...a.intervalsUntilOut, ...b.intervalsUntilOut],
    neverOut: a.neverOut + b.neverOut,
    finalIntervals: a.finalIntervals + b.finalIntervals,
    wrongIntervals: a.wrongIntervals + b.wrongIntervals,
  };
}

/** For people. */
export function describeFigures({
  intervalsUntilOut,
  neverOut,
  finalIntervals,
  wrongIntervals,
}: TrustFigures): string[] {
  const sorted = [...intervalsUntilOut].sort((a, b) => a - b);
  const p95 = sorted[Math.ceil(0.95 * sorted.length) - 1] ?? 0;
  const most = sorted.at(-1) ?? 0;
  return [
    `sampled sessions: ${sorted.length} machines that always lie were out after ${p95} intervals (p95; at most ${most}), ${neverOut} were not found before their session ended`,
    `sampled sessions: ${wrongIntervals} of ${finalIntervals} final intervals of VNodes are wrong`,
  ];
}
