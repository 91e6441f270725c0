// How far a PNode can be relied on: a score from 0 to 1 that falls with each failure and recovers with time
// spent online. It is measured in uptime, not in dates, so clocks that jump cannot change it.

import type { PNodeHistory } from "../../records/machines.ts";

/** A newcomer is trusted less than a machine that has stayed for a day. */
const scoreAtFirst = 0.7;
/** After this much uptime without failure half of the lost score is back. */
const halfLifeMs = 6 * 3_600_000;
const failureFactor = 0.7;

export const historyAtFirst: PNodeHistory = { failures: 0, leaves: 0, uptimeMs: 0, reliability: scoreAtFirst };

export function afterUptime(history: PNodeHistory, onlineMs: number): PNodeHistory {
  const gap = (1 - history.reliability) * 2 ** (-Math.max(0, onlineMs) / halfLifeMs);
  return { ...history, uptimeMs: history.uptimeMs + Math.max(0, onlineMs), reliability: 1 - gap };
}

export function afterFailure(history: PNodeHistory): PNodeHistory {
  return { ...history, failures: history.failures + 1, reliability: history.reliability * failureFactor };
}

export function afterLeave(history: PNodeHistory): PNodeHistory {
  return { ...history, leaves: history.leaves + 1 };
}

/** Undefined before the first failure. */
export function meanSecondsBetweenFailures(history: PNodeHistory): number | undefined {
  return history.failures === 0 ? undefined : history.uptimeMs / 1000 / history.failures;
}
