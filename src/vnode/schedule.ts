// What happens in which step: training microbatches, evaluation microbatches, checkpoints. Pure functions of the
// session's settings, so that all VNodes agree without talking.

import type { SessionIdentity, SessionPolicy } from "../network/settings/session.ts";

export type Schedule = Pick<SessionIdentity, "steps" | "microbatches" | "validateEvery" | "validationMicrobatches"> &
  Pick<SessionPolicy, "checkpointEvery" | "restAfter">;

/** True where the weights are evaluated as they are after `step` updates. Fresh weights are not worth it. */
export function evaluationDue(schedule: Schedule, step: number): boolean {
  if (schedule.validateEvery <= 0 || schedule.validationMicrobatches <= 0 || step <= 0) return false;
  return step === schedule.steps || (step < schedule.steps && step % schedule.validateEvery === 0);
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
