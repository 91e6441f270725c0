// In which numerics class each lane of a mixed session computes, and which lanes would do better in another: pure functions of records and
// the fleet. A plan fixes a lane's class for its round; a lane that has no part in one is free to choose, and so lanes change.

import type { PNodeId, VNodeId } from "../../../core/ids.ts";
import { laneOf } from "../../../network/lanes.ts";
import { type Round, type RoundPlan, roundAt, type ToldRound } from "../../../network/rounds.ts";
import type { Fleet } from "../../../scheduler/placement/fleet.ts";
import { atOnce, unhurried } from "../../../scheduler/placement/pace.ts";
import { throughput } from "../../../scheduler/placement/parts.ts";
import { withoutThose } from "../../../scheduler/placement/reserve.ts";
import type { Decision, PlacementPlan, Policy } from "../../../scheduler/placement/types.ts";
import { placingAnywhere } from "../../../scheduler/schedule.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import type { Member, VNodeRecord } from "../../records/vnodes.ts";
import type { VNodeRecords } from "../../records/workloads.ts";
import { type ElasticSession, isElastic, roundsOf } from "../line.ts";

/** The round that the session is in, and what is told of it; undefined while its lanes are together. */
export function roundNow(session: SessionRecord): (Round & { readonly told: ToldRound | undefined }) | undefined {
  const round = isElastic(session) ? roundAt(session.identity, session.line) : undefined;
  return round && { ...round, told: roundsOf(session).get(round.index) };
}

/** The class that what a lane does next is computed in; undefined where any will do, or nobody has decided. */
function boundTo(session: SessionRecord, lane: number): string | undefined {
  const now = roundNow(session);
  if (now === undefined) return session.numericsClass;
  const { told, last } = now;
  // All that a lane still does at the end of a closed round is the same in every class.
  if (told?.counted && (session.line >= last || !told.counted.includes(lane))) return undefined;
  return told?.lanes.find((one) => one.lane === lane)?.class;
}

export function isMixed({ identity }: SessionRecord): boolean {
  return identity.numerics === "mixed";
}

/**
 * The class in which a lane evaluates, once that is all it still has to do: its last plan's. It prefers machines of that, and where they
 * have no room for it it ends elsewhere, without evaluating.
 */
function evaluatesIn({ identity, line }: SessionRecord, told: ToldRound | undefined, lane: number): string | undefined {
  const { validateEvery, validationMicrobatches } = identity;
  const isDue = validateEvery > 0 && validationMicrobatches > 0;
  if (!isDue || line !== identity.steps - 1 || !told?.counted?.includes(lane)) return undefined;
  return told.lanes.find((one) => one.lane === lane)?.class;
}

/** Lanes as placement sees them, those whose work is waited for first. Undefined where all of them have to be here. */
export function partsOf(session: SessionRecord): VNodeId[][] | undefined {
  const now = roundNow(session);
  if (now === undefined) return undefined;
  return lanesInOrder(session, now.told).map((lane) => session.vnodes.filter((id) => laneOf(id) === lane));
}

function lanesInOrder({ identity }: SessionRecord, told: ToldRound | undefined): number[] {
  const all = Array.from({ length: identity.lanes ?? 1 }, (_, lane) => lane);
  const isWaitedFor = (lane: number) => told?.lanes.some((one) => one.lane === lane) ?? false;
  return [...all.filter(isWaitedFor), ...all.filter((lane) => !isWaitedFor(lane))];
}

type Alive = (record: VNodeRecord) => readonly Member[];

/** The class of the machines that a lane's VNodes are on, if any is; undefined also where they are of several. */
export function classHere(records: VNodeRecords, lane: number, alive: Alive): string | undefined {
  const own = [...records.values()].filter(({ vnode }) => laneOf(vnode) === lane);
  const classes = new Set(own.flatMap((record) => alive(record).map((member) => member.class)));
  return classes.size === 1 ? [...classes][0] : undefined;
}

/** For the parts of the session, in their order: the class that each is in, and whether it has to be. */
export function classesOf(
  session: SessionRecord,
  records: VNodeRecords,
  alive: Alive,
  known: readonly string[],
): Policy["classes"] {
  const now = isMixed(session) ? roundNow(session) : undefined;
  if (now === undefined) return undefined;
  const { told } = now;
  return lanesInOrder(session, told).map((lane) => {
    const bound = boundTo(session, lane);
    if (bound !== undefined) return { class: bound, isBound: true };
    const next =
      evaluatesIn(session, told, lane) ??
      (told && nextPlanOf(session, told)?.lanes.find((one) => one.lane === lane)?.class);
    const wanted = next !== undefined && known.includes(next) ? next : classHere(records, lane, alive);
    return { class: wanted, isBound: false };
  });
}

/** Lanes that are waited for in vain: nobody here computes in the class of their plan. */
export function strandedIn({ lanes }: RoundPlan, known: readonly string[]): number[] {
  return lanes.filter((one) => !known.includes(one.class)).map(({ lane }) => lane);
}

function nextPlanOf(session: SessionRecord, { round }: ToldRound): ToldRound | undefined {
  return roundsOf(session).get(round + 1);
}

/**
 * VNodes on machines of another class than they are to compute in next, where they would wait for ever; those of resting lanes of which a
 * part is gone, or in another class; and those of lanes that cannot be evaluated where they are. The whole lane finds a place, not each of its VNodes.
 */
export function misplaced(session: SessionRecord, records: VNodeRecords, alive: Alive): VNodeRecord[] {
  if (!isMixed(session)) return [];
  const resting = restingLanes(session).filter((lane) => !isWhole(records, lane, alive));
  const anew = new Set([...resting, ...tornLanes(session, records, alive)]);
  return [...records.values()].filter(({ vnode, members }) => {
    if (anew.has(laneOf(vnode))) return members.length > 0;
    const bound = boundTo(session, laneOf(vnode));
    return bound !== undefined && members.some((member) => member.class !== bound);
  });
}

/** Lanes that nobody waits for in the round that the session is in. Before it is planned these are all: no class is decided for any. */
function restingLanes(session: SessionRecord): number[] {
  const now = roundNow(session);
  if (now === undefined) return [];
  const { told } = now;
  if (told === undefined) return lanesInOrder(session, told);
  const awaited = told.counted ?? told.lanes.map(({ lane }) => lane);
  return lanesInOrder(session, told).filter((lane) => !awaited.includes(lane));
}

/** Lanes that have only to be evaluated and are on machines of several classes: some of their VNodes would wait for others that do not evaluate. */
function tornLanes(session: SessionRecord, records: VNodeRecords, alive: Alive): number[] {
  const told = roundNow(session)?.told;
  return (told?.counted ?? []).filter((lane) => {
    const isHere = [...records.values()].some((one) => laneOf(one.vnode) === lane && alive(one).length > 0);
    const isTail = evaluatesIn(session, told, lane) !== undefined;
    return isTail && isHere && classHere(records, lane, alive) === undefined;
  });
}

/** True for a lane that is nowhere, too: nothing of it has to go. */
function isWhole(records: VNodeRecords, lane: number, alive: Alive): boolean {
  const own = [...records.values()].filter(({ vnode }) => laneOf(vnode) === lane);
  const here = own.filter((record) => alive(record).length > 0);
  return here.length === 0 || (here.length === own.length && classHere(records, lane, alive) !== undefined);
}

/** Below this gain lanes stay as they are: each that changes misses a round. */
const gainLeast = 1.1;

/**
 * Lanes that would make all of them faster on machines of another class. They rest for a round, in which they are placed anew. Half of
 * those that are here stay in any case, so that rounds go on; and they stay where they are, so what counts is how fast all are with
 * those placed around them.
 */
export function lanesToMove(
  session: ElasticSession,
  plan: PlacementPlan,
  fleet: Fleet,
  policy: Policy,
  here: ReadonlyMap<number, string>,
): number[] {
  const lanes = [...here.keys()];
  const parts = lanes.map((lane) => session.vnodes.filter((id) => laneOf(id) === lane));
  const own = { ...plan, parts, vnodes: plan.vnodes.filter(({ id }) => here.has(laneOf(id))) };
  const placedAnew = (those: readonly number[]): Seats | undefined => {
    const theirs = new Set(lanes.flatMap((lane, at) => (those.includes(lane) ? (parts[at] ?? []) : [])));
    const [free, anew] = withoutThose(own, fleet, policy, theirs);
    const classes = lanes.map((lane) =>
      those.includes(lane) ? { class: undefined, isBound: false } : { class: here.get(lane), isBound: true },
    );
    const { decisions, unplaced } = atOnce(placingAnywhere(own, free, { ...anew, classes }, unhurried()));
    return unplaced.length > 0 ? undefined : seated(anew.current, here, decisions);
  };
  const best = placedAnew(lanes);
  if (best === undefined) return [];
  const now = seated(policy.current, here, []);
  const moving = changing(lanes, now, best).slice(0, Math.floor(lanes.length / 2));
  const then = moving.length === 0 ? undefined : placedAnew(moving);
  if (then === undefined) return [];
  const speedOf = ({ places, classes }: Seats) => throughput(own, fleet, places, (vnode) => classes.get(laneOf(vnode)));
  if (speedOf(then) < gainLeast * speedOf(now)) return [];
  return moving.filter((lane) => then.classes.get(lane) !== here.get(lane));
}

/** Where VNodes are, and in which class each lane computes. */
interface Seats {
  readonly places: ReadonlyMap<VNodeId, readonly PNodeId[]>;
  readonly classes: ReadonlyMap<number, string | undefined>;
}

function seated(current: Policy["current"], here: ReadonlyMap<number, string>, decisions: readonly Decision[]): Seats {
  const places = new Map<VNodeId, readonly PNodeId[]>(current);
  for (const { vnode, pnode } of decisions) places.set(vnode, [...(places.get(vnode) ?? []), pnode]);
  const classes = new Map<number, string | undefined>(here);
  for (const one of decisions) classes.set(laneOf(one.vnode), one.class);
  return { places, classes };
}

/**
 * Lanes are alike, so it does not matter which of them has which of the best seats: whoever has one of these now keeps it, then whoever
 * has the class of one. The rest change.
 */
function changing(lanes: readonly number[], now: Seats, best: Seats): number[] {
  const seatOf = (seats: Seats, lane: number) => {
    const machines = [...seats.places].filter(([id]) => laneOf(id) === lane).flatMap(([, pnodes]) => pnodes);
    return `${seats.classes.get(lane)} ${[...new Set(machines)].sort()}`;
  };
  const classIn = (seats: Seats, lane: number) => String(seats.classes.get(lane));
  let [left, open] = [lanes, lanes];
  for (const nameOf of [seatOf, classIn]) {
    const free = open.map((lane) => ({ lane, name: nameOf(best, lane) }));
    left = left.filter((lane) => {
      const at = free.findIndex(({ name }) => name === nameOf(now, lane));
      if (at >= 0) free.splice(at, 1);
      return at < 0;
    });
    open = free.map(({ lane }) => lane);
  }
  return [...left];
}
