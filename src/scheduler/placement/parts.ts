// Workloads in parts that need not be here together, as the lanes of an elastic session: each is placed on what those before it leave.
// Where classes are mixed, a part is in one class, and one that is free to choose takes that in which all get on fastest together.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { classOf } from "./constraints.ts";
import { expectedGflops, type Fleet } from "./fleet.ts";
import type { Pace, Search } from "./pace.ts";
import { reserve } from "./reserve.ts";
import { type Decision, mixedEngine, type PlacementPlan, type Policy, type Scheduled, type Unplaced } from "./types.ts";

/** Places a plan as a whole, or says why not. */
export type PlaceWhole = (plan: PlacementPlan, fleet: Fleet, policy: Policy, pace: Pace) => Search<Scheduled>;

type Places = ReadonlyMap<VNodeId, readonly PNodeId[]>;

export function* placingParts(
  plan: PlacementPlan,
  parts: readonly (readonly VNodeId[])[],
  fleet: Fleet,
  policy: Policy,
  whole: PlaceWhole,
  pace: Pace,
): Search<Scheduled> {
  const decisions: Decision[] = [];
  const unplaced: Unplaced[] = [];
  let left = fleet;
  let places: Places = policy.current;
  let slowestMs = 0;
  const classes = new Map<VNodeId, string>();
  for (const [index, part] of parts.entries()) {
    const own = policy.classes?.[index]?.class;
    if (own !== undefined) for (const vnode of part) classes.set(vnode, own);
  }
  for (const [index, part] of parts.entries()) {
    if (part.every((vnode) => (policy.current.get(vnode)?.length ?? 0) >= policy.copies)) continue;
    const own = new Set(part);
    const sub = planOf(plan, places, own);
    let best: Scheduled | undefined;
    let fastest = -1;
    for (const { ways, isWanted } of waysFor(left, { ...policy, current: places }, own, index)) {
      for (const asked of ways) {
        const placement = withinPart(yield* whole(sub, left, asked, pace), own);
        const isWhole = placement.unplaced.length === 0;
        const classFor = (vnode: VNodeId) => (own.has(vnode) ? classIn(asked) : classes.get(vnode));
        const speed = isWhole ? throughput(plan, left, withDecisions(places, placement.decisions), classFor) : 0;
        if (speed > fastest) [best, fastest] = [placement, speed];
        if (isWhole) break;
      }
      if (isWanted && best?.unplaced.length === 0) break;
    }
    if (best === undefined) continue;
    if (best.release) return { ...best, decisions: [], unplaced: [...unplaced, ...best.unplaced] };
    slowestMs = Math.max(slowestMs, best.slowestMs);
    unplaced.push(...best.unplaced);
    if (best.decisions.length === 0) continue;
    decisions.push(...best.decisions);
    for (const { vnode, class: chosen } of best.decisions) if (chosen !== undefined) classes.set(vnode, chosen);
    if (left === fleet) left = fleet.copy();
    reserve(left, plan, policy, best.decisions);
    places = withDecisions(places, best.decisions);
  }
  return { decisions, unplaced, numericsClass: policy.numericsClass, slowestMs };
}

/** Of a way to place a part of a mixed workload. */
function classIn({ engine, numericsClass }: Policy): string | undefined {
  return engine === mixedEngine && numericsClass !== "" ? numericsClass : undefined;
}

interface Ways {
  /** On machines that are fastest in the class, or else on any that compute in it. */
  readonly ways: readonly Policy[];
  /** If there is room, no other class is tried. */
  readonly isWanted: boolean;
}

/** By class. */
function waysFor(fleet: Fleet, policy: Policy, part: ReadonlySet<VNodeId>, index: number): Ways[] {
  if (policy.engine !== mixedEngine) return [{ ways: [policy], isWanted: true }];
  const { class: wanted, isBound = false } = policy.classes?.[index] ?? {};
  const others = isBound ? [] : fleet.classes(mixedEngine).filter((name) => name !== wanted);
  const classes = [...(wanted === undefined ? [] : [wanted]), ...others];
  // Nobody computes in anything: placing says so.
  if (classes.length === 0) return [{ ways: [policy], isWanted: true }];
  return classes.map((numericsClass) => ({
    isWanted: numericsClass === wanted,
    ways: [true, false].map((isOwn) => ({
      ...policy,
      numericsClass,
      barred: { vnodes: part, pnodes: othersThan(fleet, numericsClass, isOwn) },
    })),
  }));
}

/** Machines that do not compute in a class; `isOwn`: or are faster in another. */
function othersThan(fleet: Fleet, numericsClass: string, isOwn: boolean): Set<PNodeId> {
  const others = new Set<PNodeId>();
  for (const node of fleet.nodes()) {
    const computes = node.numerics.some((one) => one.class === numericsClass);
    if (!computes || (isOwn && classOf(node, mixedEngine) !== numericsClass)) others.add(node.id);
  }
  return others;
}

/** This part, and of the others what has a place: it stays there, and takes its share of the machine's time. */
function planOf(plan: PlacementPlan, places: Places, part: ReadonlySet<VNodeId>): PlacementPlan {
  const { parts: _, ...rest } = plan;
  const has = (vnode: VNodeId) => part.has(vnode) || places.has(vnode);
  return {
    ...rest,
    vnodes: plan.vnodes.filter(({ id }) => has(id)),
    edges: plan.edges.filter(({ from, to }) => has(from) && has(to)),
    colocations: plan.colocations.map((group) => group.filter(has)).filter((group) => group.length > 1),
  };
}

function withinPart(placement: Scheduled, part: ReadonlySet<VNodeId>): Scheduled {
  const isOwn = ({ vnode }: { readonly vnode: VNodeId }) => part.has(vnode);
  const [decisions, unplaced] = [placement.decisions.filter(isOwn), placement.unplaced.filter(isOwn)];
  const release = placement.release?.filter((vnode) => part.has(vnode));
  const { release: _, torn: __, ...rest } = placement;
  return { ...rest, decisions, unplaced, ...(release && release.length > 0 && { release }) };
}

function withDecisions(places: Places, decisions: readonly Decision[]): Places {
  const all = new Map(places);
  for (const { vnode, pnode } of decisions) all.set(vnode, [...(all.get(vnode) ?? []), pnode]);
  return all;
}

/** In a class that is not its fastest a machine is taken to be half as fast, as with the portable engine. */
const otherClassShare = 0.5;

/**
 * Steps of all parts in a millisecond: a part is as fast as its slowest machine, which it may share with others. `classFor`: the class
 * of a part's VNodes, where that is not the fastest of each machine.
 */
export function throughput(
  plan: PlacementPlan,
  fleet: Fleet,
  places: Places,
  classFor: (vnode: VNodeId) => string | undefined = () => undefined,
): number {
  const flopsOn = new Map<PNodeId, number>();
  for (const { id, flops } of plan.vnodes)
    for (const pnode of places.get(id) ?? []) {
      const [node, own] = [fleet.get(pnode), classFor(id)];
      const share = own !== undefined && node && classOf(node, mixedEngine) !== own ? otherClassShare : 1;
      flopsOn.set(pnode, (flopsOn.get(pnode) ?? 0) + flops / share);
    }
  const stageMs = (pnode: PNodeId) => {
    const node = fleet.get(pnode);
    return node ? (flopsOn.get(pnode) ?? 0) / (expectedGflops(node, plan.workload) * 1e6) : Number.POSITIVE_INFINITY;
  };
  const parts = plan.parts ?? [plan.vnodes.map(({ id }) => id)];
  return parts.reduce((sum, part) => {
    if (!part.every((vnode) => places.has(vnode))) return sum;
    const slowest = Math.max(...part.flatMap((vnode) => (places.get(vnode) ?? []).map(stageMs)));
    return sum + (slowest > 0 ? 1 / slowest : 0);
  }, 0);
}
