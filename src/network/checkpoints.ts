// After which steps states are stored: a pure function of a session's settings, so that those who compute, check, pay and move VNodes all
// count the same intervals.

import { type Round, roundAt } from "./rounds.ts";
import type { SessionIdentity, SessionPolicy } from "./settings/session.ts";
import { settingFields } from "./settings/setting-fields.ts";

export type CheckpointTimes = Pick<SessionIdentity, "steps" | "sync"> &
  Pick<SessionPolicy, "checkpointEvery" | "roundCheckpoints" | "elastic">;

/** Hashes of more steps than these do not fit into a record of the store. */
const stepsMost = settingFields.checkpointEvery.most;

/**
 * True if the state after `step` updates is made durable. Where rounds close without those who are late, also when all that a lane
 * learns in one is learned, which says that it is ready, and at its end, where lanes come and go.
 */
export function checkpointDue(times: CheckpointTimes, step: number): boolean {
  const { steps, checkpointEvery, roundCheckpoints, elastic } = times;
  if (step <= 0) return false;
  if (step === steps) return true;
  const round = roundAt(times, step);
  const isApart = round !== undefined && roundCheckpoints === "ends";
  if (isApart ? (step - round.first) % pieceOf(round) === 0 : step % checkpointEvery === 0) return true;
  return elastic === "on" && (step === round?.first || step === round?.last);
}

/** A round is stored at its end alone, or, if it is too long for that, in equal pieces. */
function pieceOf({ first, last }: Pick<Round, "first" | "last">): number {
  const length = last + 1 - first;
  return Math.ceil(length / Math.ceil(length / stepsMost));
}

/** The first one after `step` updates; the session's end at the latest. */
export function checkpointAfter(times: CheckpointTimes, step: number): number {
  let next = Math.max(0, step) + 1;
  while (next < times.steps && !checkpointDue(times, next)) next++;
  return Math.min(next, times.steps);
}

/** The last one of at most `step` updates; 0 if there is none. */
export function checkpointBefore(times: CheckpointTimes, step: number): number {
  let last = Math.min(step, times.steps);
  while (last > 0 && !checkpointDue(times, last)) last--;
  return last;
}

/** How many there are after `from` updates up to `to`. Of sessions that are elastic only those that any session has. */
export function checkpointsBetween(times: CheckpointTimes, from: number, to: number): number {
  return checkpointsUpTo(times, to) - checkpointsUpTo(times, from);
}

function checkpointsUpTo(times: CheckpointTimes, step: number): number {
  const { steps, sync, checkpointEvery, roundCheckpoints } = times;
  const count = (of: number, every: number) => (step >= steps ? Math.ceil(of / every) : Math.floor(of / every));
  const upTo = Math.min(step, steps);
  // The session's end belongs to its last round.
  const round = upTo > 0 ? roundAt(times, Math.min(upTo, steps - 1)) : undefined;
  if (sync === undefined || round === undefined || roundCheckpoints !== "ends") return count(upTo, checkpointEvery);
  const each = Math.ceil((sync.every + 1) / stepsMost);
  return Math.ceil(sync.after / checkpointEvery) + round.index * each + count(upTo - round.first, pieceOf(round));
}

/** No interval between two has more steps. */
export function intervalStepsMost({ sync, checkpointEvery, roundCheckpoints }: CheckpointTimes): number {
  if (sync === undefined || roundCheckpoints !== "ends") return checkpointEvery;
  // The last round takes what is left over.
  return Math.max(checkpointEvery, Math.min(stepsMost, sync.every + 2));
}
