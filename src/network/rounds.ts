// Rounds: steps that lanes take apart, and one step at their end by which all go on from what they learned together. Where rounds begin
// and end follows from the settings. Who takes how many steps on which samples follows from them too, equal for all lanes; in a
// session that is elastic a record says so for each round, and another one which lanes count. Pure functions of these.

import type { SessionIdentity } from "./settings/session.ts";

type RoundTimes = Pick<SessionIdentity, "steps" | "sync">;

export interface Round {
  /** Counts from 0. */
  readonly index: number;
  /** Its first step; all lanes begin it with the same weights. */
  readonly first: number;
  /** Its last step: nobody learns in it, what was learned is put together. */
  readonly last: number;
}

/** The round that a step belongs to; undefined for those that lanes take together. */
export function roundAt({ steps, sync }: RoundTimes, step: number): Round | undefined {
  if (sync === undefined || step < sync.after || step >= steps) return undefined;
  return roundOf({ steps, sync }, Math.floor((step - sync.after) / (sync.every + 1)));
}

/** A round of its own needs a step to learn in: what is left over beyond that belongs to the last one. */
export function roundCount({ steps, sync }: RoundTimes): number {
  if (sync === undefined) return 0;
  const length = sync.every + 1;
  const left = steps - sync.after;
  return Math.max(1, Math.floor(left / length) + (left % length >= 2 ? 1 : 0));
}

/** By its number; one beyond the last is the last. */
export function roundOf(times: RoundTimes & Required<Pick<RoundTimes, "sync">>, number: number): Round {
  const { steps, sync } = times;
  const count = roundCount(times);
  const index = Math.min(number, count - 1);
  const first = sync.after + index * (sync.every + 1);
  return { index, first, last: index === count - 1 ? steps - 1 : first + sync.every };
}

/** True if all lanes have the same weights after so many updates. */
export function isCommon(times: RoundTimes, step: number): boolean {
  if (step === 0) return true;
  const round = roundAt(times, step - 1);
  return round === undefined || round.last === step - 1;
}

/** Neighbouring microbatches of the training data, counted from the session's first. */
export type Range = readonly [first: number, count: number];

export interface LanePlan {
  readonly lane: number;
  /** So many of the round's steps it learns in; at least one. */
  readonly steps: number;
  /** The numerics class in which it computes the round. */
  readonly class: string;
  /** What it learns from, in this order. */
  readonly samples: readonly Range[];
}

/** Create-only, before the round begins. Lanes that are not in it rest. */
export interface RoundPlan {
  readonly round: number;
  readonly lanes: readonly LanePlan[];
}

/** A round as everybody who works for the session is told of it. */
export interface ToldRound extends RoundPlan {
  /** The lanes that count: create-only, before anybody tells what it learned. Absent while nobody knows. */
  readonly counted?: readonly number[];
}

/** What lanes do where nobody says otherwise: all the same. */
export function equalRound(settings: EqualSettings, { index, first, last }: Round): ToldRound {
  const { lanes = 1, microbatches } = settings;
  const each = microbatches / lanes;
  const learned = last - first;
  const numbers = Array.from({ length: lanes }, (_, lane) => lane);
  // The samples that lanes would take of these steps together.
  const samples = (lane: number) =>
    Array.from({ length: learned }, (_, step): Range => [(first + step - index) * microbatches + lane * each, each]);
  return {
    round: index,
    lanes: numbers.map((lane) => ({ lane, steps: learned, class: "", samples: samples(lane) })),
    counted: numbers,
  };
}

/** `microbatches` are those of a whole step. */
export type EqualSettings = Pick<SessionIdentity, "lanes" | "microbatches">;

/** Which of its steps of the round a lane learns in at a step; undefined where it waits. Evenly spread, so that lanes get on alike. */
export function learnedIn(round: Round, steps: number, step: number): number | undefined {
  if (step < round.first || step >= round.last) return undefined;
  const before = learnedBefore(round, steps, step);
  return learnedBefore(round, steps, step + 1) > before ? before : undefined;
}

/** How many of its steps of the round a lane has learned in before a step. */
function learnedBefore({ first, last }: Round, steps: number, step: number): number {
  return Math.floor(((Math.min(step, last) - first) * steps) / (last - first));
}

/** How many microbatches of the training data all lanes learn from in the steps from `from` on before `to`; rounds that nobody told of are equal. */
export function learnedBetween(
  settings: RoundTimes & EqualSettings,
  rounds: ReadonlyMap<number, ToldRound>,
  from: number,
  to: number,
): number {
  const { lanes = 1, microbatches, sync } = settings;
  let learned = 0;
  for (let step = from; step < to; ) {
    const round = roundAt(settings, step);
    const end = Math.min(to, round === undefined ? Math.max(sync?.after ?? to, step + 1) : round.last + 1);
    if (round === undefined) learned += (end - step) * microbatches;
    else {
      const told = rounds.get(round.index);
      const stepsOf = (own: number) => learnedBefore(round, own, end) - learnedBefore(round, own, step);
      const counting = told?.lanes.filter(({ lane }) => told.counted?.includes(lane) ?? true);
      const steps = counting?.reduce((sum, lane) => sum + stepsOf(lane.steps), 0);
      learned += (steps ?? lanes * stepsOf(round.last - round.first)) * (microbatches / lanes);
    }
    step = end;
  }
  return learned;
}

/** The microbatch of the training data at a place in the ranges. */
export function placeIn(ranges: readonly Range[], index: number): number {
  let left = index;
  for (const [first, count] of ranges) {
    if (left < count) return first + left;
    left -= count;
  }
  throw new RangeError(`the ranges hold no microbatch ${index}`);
}

/**
 * The lanes whose own states make up the session after `step` updates: all before the first round; in a round those that are planned
 * and count. Undefined while nobody knows who counts at a round's end.
 */
export function lanesAt(
  times: RoundTimes & Pick<SessionIdentity, "lanes">,
  rounds: ReadonlyMap<number, ToldRound>,
  step: number,
): readonly number[] | undefined {
  const round = step > 0 ? roundAt(times, step - 1) : undefined;
  if (round === undefined) return Array.from({ length: times.lanes ?? 1 }, (_, lane) => lane);
  const told = rounds.get(round.index);
  if (told?.counted !== undefined) return told.counted;
  return step > round.last ? undefined : told?.lanes.map(({ lane }) => lane);
}

/**
 * The recovery line from `line` on: the newest step whose states are stored at all lanes that make it up. It never passes the beginning
 * of a round by: there lanes come and go, and each has to have a state.
 */
export function lineFrom(
  times: RoundTimes & Pick<SessionIdentity, "lanes">,
  rounds: ReadonlyMap<number, ToldRound>,
  line: number,
  stored: readonly number[],
  isStored: (lane: number, step: number) => boolean,
): number {
  let newest = line;
  for (const step of [...stored].sort((a, b) => a - b)) {
    if (step <= newest) continue;
    if ((roundAt(times, step - 1)?.first ?? 0) > newest) break;
    if (lanesAt(times, rounds, step)?.every((lane) => isStored(lane, step))) newest = step;
  }
  return newest;
}
