// Whether a running session should move to a fleet that has become better: only if the time it saves clearly
// exceeds the time that moving costs. Moving never changes bits, only speed. Owners are written one VNode after another, and
// whoever writes them may die in between: a group that was parted that way is brought together again, whatever it saves. So is
// a session spread again that asks for more PNodes than it uses.

import type { VNodeId } from "../../core/ids.ts";
import { plural } from "../../core/words/plural.ts";
import { threeDigits } from "../../core/words/sentences.ts";
import { placing } from "../placement.ts";
import type { Fleet } from "./fleet.ts";
import type { Pace, Search } from "./pace.ts";
import type { Decision, PlacementPlan, Policy } from "./types.ts";
import { type Unit, unitsOf } from "./units.ts";

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
  const parted = unitsOf(plan, policy).units.filter((unit) => homesOf(unit, policy).size > 1);
  if (parted.length > 0) return yield* together(plan, fleet, policy, parted, pace);
  const { slowestMs: nowMs } = yield* placing(plan, fleet, policy, pace);
  const anew = { ...policy, current: new Map(), holdsData: new Set(policy.holdsData) };
  const fresh = yield* placing(plan, fleet, anew, pace);
  const wider = fresh.unplaced.length === 0 && spreading(fresh.decisions, policy);
  if (wider) return wider;
  if (fresh.unplaced.length > 0 || fresh.slowestMs <= 0 || nowMs / fresh.slowestMs < gainLeast) return undefined;
  const savedMs = (nowMs - fresh.slowestMs) * outlook.stepsLeft;
  const lostMs = movePauseMs + outlook.replaySteps * nowMs;
  if (savedMs < payback * lostMs) return undefined;
  const decisions = fresh.decisions.filter((decision) => policy.current.get(decision.vnode)?.[0] !== decision.pnode);
  const seconds = Math.round(savedMs / 1000);
  const reason = `moving ${plural(decisions.length, "VNode")} shortens a step from ${threeDigits(nowMs)} to ${threeDigits(fresh.slowestMs)} ms and saves about ${seconds} s`;
  return decisions.length > 0 ? { decisions, reason } : undefined;
}

/** A session that insists on more PNodes than it is left with since some were lost goes to others as soon as they are there. */
function spreading(decisions: readonly Decision[], { current, spread = 1 }: Policy): Move | undefined {
  const used = new Set([...current.values()].flat()).size;
  const usable = new Set(decisions.map(({ pnode }) => pnode)).size;
  if (used >= spread || usable <= used) return undefined;
  const moved = decisions.filter(({ vnode, pnode }) => current.get(vnode)?.[0] !== pnode);
  return {
    decisions: moved,
    reason: `moving ${plural(moved.length, "VNode")} uses ${plural(usable, "PNode")} instead of ${used}: it asks for ${spread}`,
  };
}

function homesOf({ vnodes }: Unit, { current }: Policy): Set<string | undefined> {
  return new Set(vnodes.map(({ id }) => current.get(id)?.[0]));
}

/** Beside the first of each group if there is room for the others, else all of it elsewhere. */
function* together(
  plan: PlacementPlan,
  fleet: Fleet,
  policy: Policy,
  parted: readonly Unit[],
  pace: Pace,
): Search<Move | undefined> {
  const without = (left: (unit: Unit) => Unit["vnodes"]) => {
    const current = new Map(policy.current);
    for (const unit of parted) for (const { id } of left(unit)) current.delete(id);
    return { ...policy, current };
  };
  const isBesideFirst = ({ vnodes: [first] }: Unit, id: VNodeId) =>
    first !== undefined && policy.current.get(id)?.[0] === policy.current.get(first.id)?.[0];
  const followers = without((unit) => unit.vnodes.filter(({ id }) => !isBesideFirst(unit, id)));
  let next = yield* placing(plan, fleet, followers, pace);
  if (next.unplaced.length > 0)
    next = yield* placing(
      plan,
      fleet,
      without(({ vnodes }) => vnodes),
      pace,
    );
  const decisions = next.decisions.filter(({ vnode, pnode }) => policy.current.get(vnode)?.[0] !== pnode);
  if (next.unplaced.length > 0 || decisions.length === 0) return undefined;
  return { decisions, reason: `bringing ${decisions.length} VNodes together with the rest of their group` };
}
