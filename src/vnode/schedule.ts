// What happens in which step: training microbatches, evaluation microbatches, checkpoints. Pure functions of the
// session's settings, so that all VNodes agree without talking.

import type { SessionIdentity, SessionPolicy } from "../network/settings/session.ts";

export type Schedule = Rounds &
  Pick<SessionIdentity, "microbatches" | "validateEvery" | "validationMicrobatches"> &
  Pick<SessionPolicy, "checkpointEvery" | "restAfter">;

type Rounds = Pick<SessionIdentity, "steps" | "sync">;

/** The last step of the round that a step belongs to; undefined before the first round. */
export function lastOfRound({ steps, sync }: Rounds, step: number): number | undefined {
  if (sync === undefined || step < sync.after || step >= steps) return undefined;
  const { every, after } = sync;
  return Math.min(steps, after + (Math.floor((step - after) / every) + 1) * every) - 1;
}

/** What copies of a VNode add up over lanes in a step: gradients before its update, or what they learned after it. */
export function addedUpIn(rounds: Rounds, step: number): "reduce" | "outer" | undefined {
  const last = lastOfRound(rounds, step);
  if (last === undefined) return step < rounds.steps ? "reduce" : undefined;
  return last === step ? "outer" : undefined;
}

/** True if all lanes have the same weights after so many updates. */
export function isCommon(rounds: Rounds, step: number): boolean {
  return step === 0 || addedUpIn(rounds, step - 1) !== undefined;
}

/**
 * True where the weights are evaluated as they are after `step` updates. Fresh weights are not worth it, and weights of
 * lanes that are apart are no network's: they are evaluated when their round ends.
 */
export function evaluationDue(schedule: Schedule, step: number): boolean {
  const { validateEvery, validationMicrobatches, steps, sync } = schedule;
  if (validateEvery <= 0 || validationMicrobatches <= 0 || step <= 0 || step > steps) return false;
  if (step === steps) return true;
  if (!isCommon(schedule, step)) return false;
  const isApartBefore = sync !== undefined && step > sync.after;
  const before = isApartBefore ? step - sync.every : step - 1;
  return Math.floor(step / validateEvery) > Math.floor(before / validateEvery);
}

export function trainingCount(schedule: Schedule, step: number): number {
  return step < schedule.steps ? schedule.microbatches : 0;
}

export function evaluationCount(schedule: Schedule, step: number): number {
  return evaluationDue(schedule, step) ? schedule.validationMicrobatches : 0;
}

export function microbatchCount(schedule: Schedule, step: number): number {
  return schedule.microbatches + evaluationCount(schedule, step);
}

/** True if the state after `step` updates is made durable. */
export function checkpointDue(schedule: Schedule, step: number): boolean {
  return step > 0 && (step === schedule.steps || step % schedule.checkpointEvery === 0);
}
