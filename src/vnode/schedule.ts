// What happens in which step: training microbatches, evaluation microbatches, checkpoints. Pure functions of the
// session's settings, so that all VNodes agree without talking.

import { checkpointAfter } from "../network/checkpoints.ts";
import { isCommon, roundAt } from "../network/rounds.ts";
import type { SessionIdentity, SessionPolicy } from "../network/settings/session.ts";
import type { RoundBook } from "./book.ts";

export type Schedule = Rounds &
  Pick<SessionIdentity, "microbatches" | "validateEvery" | "validationMicrobatches"> &
  Pick<SessionPolicy, "checkpointEvery" | "roundCheckpoints" | "restAfter" | "elastic">;

type Rounds = Pick<SessionIdentity, "steps" | "sync">;

/** What copies of a VNode add up over lanes in a step: gradients before its update, or what they learned in a round. */
export function addedUpIn(rounds: Rounds, step: number): "reduce" | "outer" | undefined {
  const round = roundAt(rounds, step);
  if (round === undefined) return step < rounds.steps ? "reduce" : undefined;
  return round.last === step ? "outer" : undefined;
}

/**
 * True where the weights are evaluated as they are after `step` updates. Fresh weights are not worth it, and weights of
 * lanes that are apart are no network's: they are evaluated when their round ends.
 */
export function evaluationDue(schedule: Schedule, step: number): boolean {
  const { validateEvery, validationMicrobatches, steps } = schedule;
  if (validateEvery <= 0 || validationMicrobatches <= 0 || step <= 0 || step > steps) return false;
  if (step === steps) return true;
  if (!isCommon(schedule, step)) return false;
  const before = roundAt(schedule, step - 1)?.first ?? step - 1;
  return Math.floor(step / validateEvery) > Math.floor(before / validateEvery);
}

/** `book`: what is known of rounds. */
export function trainingCount(schedule: Schedule, step: number, book: RoundBook): number {
  return book.learns(step) ? schedule.microbatches : 0;
}

export function evaluationCount(schedule: Schedule, step: number, book: RoundBook): number {
  return evaluationDue(schedule, step) && book.evaluates(step) ? schedule.validationMicrobatches : 0;
}

/** All that may travel in a step, whoever has a part in it. */
export function microbatchCount(schedule: Schedule, step: number): number {
  return schedule.microbatches + (evaluationDue(schedule, step) ? schedule.validationMicrobatches : 0);
}

/**
 * Before this step a VNode goes on wherever the line stays: to the next checkpoint, which moves it. Where a round closes without late lanes,
 * the line may stay as long as these do, and the others go on to the round's end, since that is what closes it. The last checkpoint comes
 * after the evaluation of its state.
 */
export function reachableFrom(schedule: Schedule, line: number): number {
  const next = checkpointAfter(schedule, line);
  const round = schedule.elastic === "on" ? roundAt(schedule, line) : undefined;
  const end = Math.max(next, round?.last ?? 0);
  return end === schedule.steps ? end + 1 : end;
}
