// What one VNode has been told of rounds: who learns how much in them, and whose work counts. Records are inputs like messages are: a
// process waits until it is told, and whoever replays is told the same.

import { assert } from "../core/assert.ts";
import {
  equalRound,
  type LanePlan,
  learnedIn,
  placeIn,
  type Round,
  roundAt,
  type ToldRound,
} from "../network/rounds.ts";
import type { Schedule } from "./schedule.ts";

/** Of a lane whose work counts in a round. */
export interface Counted {
  readonly lane: number;
  readonly steps: number;
}

/** Numerics classes of a copy where each lane has its own; empty elsewhere. */
export interface LaneClasses {
  /** In which it computes. */
  readonly own: string;
  /** In which all learn together, before the first round. */
  readonly common: string;
}

export class RoundBook {
  readonly #schedule: Pick<Schedule, "steps" | "sync" | "microbatches" | "elastic">;
  readonly #lane: number;
  readonly #lanes: number;
  readonly #classes: LaneClasses;
  readonly #told = new Map<number, ToldRound>();
  /** The last one that followed from the settings. */
  #equal: ToldRound | undefined;

  constructor(
    schedule: Pick<Schedule, "steps" | "sync" | "microbatches" | "elastic">,
    copy: { readonly lane: number; readonly lanes: number } = { lane: 0, lanes: 1 },
    classes: LaneClasses = { own: "", common: "" },
  ) {
    this.#classes = classes;
    this.#schedule = schedule;
    this.#lane = copy.lane;
    this.#lanes = copy.lanes;
  }

  /** What is known already never changes: a plan may only be followed by its closing. */
  tell(rounds: readonly ToldRound[]): void {
    for (const told of rounds) {
      const known = this.#told.get(told.round);
      if (known?.counted === undefined) this.#told.set(told.round, known && !told.counted ? known : told);
    }
  }

  #of(round: Round): ToldRound | undefined {
    if (this.#schedule.elastic === "on") return this.#told.get(round.index);
    const settings = { lanes: this.#lanes, microbatches: this.#schedule.microbatches * this.#lanes };
    if (this.#equal?.round !== round.index) this.#equal = equalRound(settings, round);
    return this.#equal;
  }

  /** True if it is known what happens in a step, and here is where it happens. */
  isPlanned(step: number): boolean {
    const round = roundAt(this.#schedule, step);
    if (round === undefined) return step >= this.#schedule.steps || this.#classes.own === this.#classes.common;
    // What is put together at a round's end is the same in every class: the one that learned it may be gone by then.
    return this.#of(round) !== undefined && (step === round.last || this.#isOwnClass(round));
  }

  /** What a lane learns in a round is computed in one class. */
  #isOwnClass(round: Round): boolean {
    const own = this.#ownIn(round);
    return this.#classes.own === "" || own === undefined || own.class === this.#classes.own;
  }

  /**
   * True if what the weights are worth after `step` updates may be computed here. After the last round no plan follows that would name a
   * class: a lane evaluates in that of the last one, or, where it has moved to another since, not at all.
   */
  evaluates(step: number): boolean {
    const { steps } = this.#schedule;
    const round = step === steps ? roundAt(this.#schedule, steps - 1) : undefined;
    return round === undefined || this.#isOwnClass(round);
  }

  /** True once it is known whose work counts in the round of this step. */
  isClosed(step: number): boolean {
    const round = roundAt(this.#schedule, step);
    return round === undefined || this.#of(round)?.counted !== undefined;
  }

  /** What this lane does in the round of a step; undefined where it rests, or is not known to do anything. */
  #ownIn(round: Round): LanePlan | undefined {
    return this.#of(round)?.lanes.find(({ lane }) => lane === this.#lane);
  }

  /** True where this lane has no part in the round of a step, from its beginning on or because it was late. */
  isOut(step: number): boolean {
    const round = roundAt(this.#schedule, step);
    const told = round && this.#of(round);
    if (round === undefined || told === undefined) return false;
    return this.#ownIn(round) === undefined || told.counted?.includes(this.#lane) === false;
  }

  /** True if this lane learns in a step. */
  learns(step: number): boolean {
    const round = roundAt(this.#schedule, step);
    if (round === undefined) return step < this.#schedule.steps;
    const own = this.#ownIn(round);
    return own !== undefined && learnedIn(round, own.steps, step) !== undefined;
  }

  /** Which of the session's microbatches one of a step's is; undefined where that follows from the step. */
  sampleOf(step: number, microbatch: number): number | undefined {
    const round = roundAt(this.#schedule, step);
    const own = round && this.#ownIn(round);
    if (round === undefined || own === undefined) return undefined;
    const at = learnedIn(round, own.steps, step);
    assert(at !== undefined, `lane ${this.#lane} learns in step ${step}`);
    return placeIn(own.samples, at * this.#schedule.microbatches + microbatch);
  }

  /** The lanes whose work counts in the round of a step, in their order. */
  counted(step: number): readonly Counted[] {
    const round = roundAt(this.#schedule, step);
    const told = round && this.#of(round);
    const { counted = [], lanes = [] } = told ?? {};
    return lanes
      .filter(({ lane }) => counted.includes(lane))
      .map(({ lane, steps }) => ({ lane, steps }))
      .sort((a, b) => a.lane - b.lane);
  }
}
