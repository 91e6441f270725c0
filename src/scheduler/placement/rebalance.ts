// Whether a running session should move to a fleet that has become better: only if the time it saves clearly
// exceeds the time that moving costs. Moving never changes bits, only speed.

import { threeDigits } from "../../core/words/sentences.ts";
import { placing } from "../placement.ts";
import type { Fleet } from "./fleet.ts";
import type { Pace, Search } from "./pace.ts";
import type { Decision, PlacementPlan, Policy } from "./types.ts";

export interface Outlook {
  readonly stepsLeft: number;
  /** Steps that moved VNodes compute again: those since the last checkpoint. */
  readonly replaySteps: number;
}

/** A gain below this is within the noise of measured speeds. */
const gainLeast = 1.25;
/** The time saved must be this many times the time lost. */
const payback = 3;
/** Loading a state, starting graphs. */
const movePauseMs = 2_000;

export interface Move {
  readonly decisions: readonly Decision[];
  readonly reason: string;
}

/** Undefined if it should stay where it is. */
export function* shouldMove(
  plan: PlacementPlan,
  fleet: Fleet,
  policy: Policy,
  outlook: Outlook,
  pace: Pace,
): Search<Move | undefined> {
  if (policy.copies > 1 || policy.current.size < plan.vnodes.length) return undefined;
  const { slowestMs: nowMs } = yield* placing(plan, fleet, policy, pace);
  const anew = { ...policy, current: new Map(), holdsData: new Set(policy.holdsData) };
  const fresh = yield* placing(plan, fleet, anew, pace);
  if (fresh.unplaced.length > 0 || fresh.slowestMs <= 0 || nowMs / fresh.slowestMs < gainLeast) return undefined;
  const savedMs = (nowMs - fresh.slowestMs) * outlook.stepsLeft;
  const lostMs = movePauseMs + outlook.replaySteps * nowMs;
  if (savedMs < payback * lostMs) return undefined;
  const decisions = fresh.decisions.filter((decision) => policy.current.get(decision.vnode)?.[0] !== decision.pnode);
  const seconds = Math.round(savedMs / 1000);
  const reason = `moving ${decisions.length} VNodes shortens a step from ${threeDigits(nowMs)} to ${threeDigits(fresh.slowestMs)} ms and saves about ${seconds} s`;
  return decisions.length > 0 ? { decisions, reason } : undefined;
}
