// `place`: which PNode hosts which VNode, and why. A pure function: hard constraints first, then the slowest
// stage, then traffic, reliability, data, price; what has a place already stays there.

import type { PNodeId } from "../core/ids.ts";
import { threeDigits } from "../core/words/sentences.ts";
import { auditRoomOf } from "./placement/audit-room.ts";
import { type Layout, slowestMs } from "./placement/balance.ts";
import { type Bin, binOf, chooseBins, fits, type Purse, put, stageMs } from "./placement/bins.ts";
import { bytes, classOf, eligible, eligibleInPool, poolEligible, whyNot } from "./placement/constraints.ts";
import { type Care, Crowds, caresFor, count, type Unproven, unprovenOf, unprovenReason } from "./placement/crowds.ts";
import { expectedGflops, type Fleet } from "./placement/fleet.ts";
import { balanced } from "./placement/layouts.ts";
import { atOnce, type Pace, type Search, unhurried } from "./placement/pace.ts";
import type { Problem } from "./placement/problem.ts";
import { spreadOut } from "./placement/spread.ts";
import {
  type Decision,
  type FleetNode,
  mixedEngine,
  type Placement,
  type PlacementPlan,
  type PlacementVNode,
  type Policy,
  type Unplaced,
} from "./placement/types.ts";
import { type Unit, unitEdges, unitsOf } from "./placement/units.ts";

/** What a sentence about one unit takes, in looks. */
const looksPerReason = 100;
/** What a unit takes to make and connect, and a PNode to choose. */
const looksPerUnit = 50;
const looksPerBin = 50;

export function place(plan: PlacementPlan, fleet: Fleet, asked: Policy): Placement {
  return atOnce(placing(plan, fleet, asked, unhurried()));
}

/** The same, with pauses. What changes in the fleet meanwhile counts or does not: rooms are claimed afterwards anyway. */
export function* placing(plan: PlacementPlan, fleet: Fleet, asked: Policy, pace: Pace): Search<Placement> {
  const policy = asked.numericsClass === "" ? { ...asked, numericsClass: chooseClass(plan, fleet, asked) } : asked;
  const unproven = unprovenOf(fleet, policy);
  let best: Placement | undefined;
  const cares = caresFor(unproven, fleet, auditRoomOf(plan, fleet, policy));
  for (const care of cares) {
    const isFirst = care.everybody === cares[0]?.everybody && care.each === cares[0]?.each;
    const placement = yield* placeOn(plan, fleet, policy, { unproven, care, isFirst }, pace);
    if (best === undefined || lacksLess(placement.unplaced, best.unplaced)) best = placement;
    if (best.unplaced.length === 0) break;
  }
  return best as Placement;
}

/** Something that has no place at all stops everything; a further copy that has none stops nothing. */
function lacksLess(one: readonly Unplaced[], other: readonly Unplaced[]): boolean {
  const without = (unplaced: readonly Unplaced[]) => unplaced.filter(({ copy }) => copy === 0).length;
  return without(one) < without(other) || (without(one) === without(other) && one.length < other.length);
}

interface Carefully {
  readonly unproven: Unproven;
  readonly care: Care;
  /** No limit was lifted. */
  readonly isFirst: boolean;
}

function* placeOn(
  plan: PlacementPlan,
  fleet: Fleet,
  policy: Policy,
  { unproven, care, isFirst }: Carefully,
  pace: Pace,
): Search<Placement> {
  const { units, unitOf } = unitsOf(plan, policy);
  let crowds = new Crowds(unproven, care, units.length * policy.copies);
  if (pace.isSpent(looksPerUnit * units.length)) yield;
  const edges = unitEdges(plan, unitOf);
  const settled = settle(units, policy);
  const missing = units.filter((unit) => settled.get(unit.index) === undefined);

  if (pace.isSpent(looksPerUnit * units.length)) yield;
  let bins = yield* chooseBins(fleet, policy, plan.workload, missing, { everything: false, crowds }, pace);
  let filling = fill(bins, units, settled, policy);
  const problem = (): Problem => ({
    units: missing,
    all: units,
    edges,
    bins,
    purse: filling.purse,
    settled,
    fleet,
    policy,
  });
  if (pace.isSpent(looksPerBin * bins.length)) yield;
  let layout = yield* balanced(problem(), pace);
  if (missing.some((unit) => layout[unit.index] === -1) && bins.length < fleet.size) {
    crowds = new Crowds(unproven, care, units.length * policy.copies);
    bins = yield* chooseBins(fleet, policy, plan.workload, missing, { everything: true, crowds }, pace);
    filling = fill(bins, units, settled, policy);
    if (pace.isSpent(looksPerBin * bins.length)) yield;
    layout = yield* balanced(problem(), pace);
  }
  if (policy.spread) spreadOut(problem(), layout, policy.spread);
  const { purse, torn, homes } = filling;
  for (const unit of missing) {
    const bin = bins[layout[unit.index] as number];
    if (bin) put(bin, unit, purse);
  }
  const work: Work = {
    plan,
    fleet,
    policy,
    units,
    decisions: [],
    unplaced: [],
    slowestMs: slowestMs(bins),
    whyNot: undefined,
    crowds,
    isFirst,
  };
  for (const unit of units) {
    if (unit.vnodes.every((vnode) => policy.current.has(vnode.id))) continue;
    const home = settled.get(unit.index);
    const tear = torn.get(unit.index);
    if (tear) for (const { id } of tear.followers) work.unplaced.push({ vnode: id, copy: 0, reason: tear.reason });
    else explain(work, unit, home === undefined ? bins[layout[unit.index] as number] : homes.get(home), bins, 0);
    if (pace.isSpent(looksPerReason)) yield;
  }
  if (policy.copies > 1) yield* placeCopies(work, bins, purse, settled, layout, pace);
  const left = Array.from(torn.values(), ({ settlers }) => settlers).flat();
  return {
    decisions: work.decisions,
    unplaced: work.unplaced,
    numericsClass: policy.numericsClass,
    slowestMs: slowestMs(bins),
    ...(left.length > 0 && { torn: left.map(({ id }) => id) }),
  };
}

interface Work {
  readonly plan: PlacementPlan;
  readonly fleet: Fleet;
  readonly policy: Policy;
  readonly units: readonly Unit[];
  readonly decisions: Decision[];
  readonly unplaced: Unplaced[];
  /** Of the primaries, for the reasons. */
  slowestMs: number;
  /** Made when first needed: it looks at the whole fleet. */
  whyNot: ((unit: Unit) => string) | undefined;
  readonly crowds: Crowds;
  readonly isFirst: boolean;
}

/** Units with a primary stay there; VNodes of a group that lost their place follow the rest of it. */
function settle(units: readonly Unit[], policy: Policy): Map<number, PNodeId> {
  const settled = new Map<number, PNodeId>();
  for (const unit of units) {
    const home = unit.vnodes.map((vnode) => policy.current.get(vnode.id)?.[0]).find((one) => one !== undefined);
    if (home !== undefined) settled.set(unit.index, home);
  }
  return settled;
}

/** A group of which some have a place, and the others no room beside them. */
interface Tear {
  readonly settlers: readonly PlacementVNode[];
  readonly followers: readonly PlacementVNode[];
  readonly reason: string;
}

interface Filling {
  /** What the whole may still cost. */
  readonly purse: Purse;
  /** By PNode. */
  readonly homes: ReadonlyMap<string, Bin>;
  /** By unit. */
  readonly torn: ReadonlyMap<number, Tear>;
}

/** Puts what stays into its bins, and with it those of a group that follow the rest of it. */
function fill(
  bins: readonly Bin[],
  units: readonly Unit[],
  settled: ReadonlyMap<number, PNodeId>,
  policy: Policy,
): Filling {
  const purse: Purse = { pricePerHour: 0, pricePerHourMax: policy.requirements.maxPricePerHour, used: new Set() };
  const homes = new Map(settled.size === 0 ? [] : bins.map((bin) => [bin.node.id as string, bin]));
  const torn = new Map<number, Tear>();
  for (const unit of settled.size === 0 ? [] : units) {
    const bin = homes.get(settled.get(unit.index) ?? "");
    if (!bin) continue;
    for (const id of membersOf(unit, policy)) count(homes.get(id)?.crowds ?? [], 1);
    const tear = follow(bin, unit, policy);
    if (tear) torn.set(unit.index, tear);
    bin.flops += unit.flops;
    if (purse.used.has(bin.node.id)) continue;
    purse.used.add(bin.node.id);
    purse.pricePerHour += bin.node.pricePerHour;
  }
  return { purse, homes, torn };
}

function membersOf({ vnodes }: Unit, { current }: Policy): Set<PNodeId> {
  return new Set(vnodes.flatMap(({ id }) => current.get(id) ?? []));
}

/** What has a place counts in the PNode's room already; the others of its group take theirs now. */
function follow(bin: Bin, unit: Unit, { current }: Policy): Tear | undefined {
  const followers = unit.vnodes.filter((vnode) => !current.has(vnode.id));
  if (followers.length === 0) return undefined;
  const memoryBytes = followers.reduce((sum, vnode) => sum + vnode.memoryBytes, 0);
  const gpus = followers.reduce((sum, vnode) => sum + vnode.gpus, 0);
  const fitsIn = bin.memoryLeftBytes >= memoryBytes && bin.gpusLeft >= gpus && bin.claimsLeft >= followers.length;
  if (!fitsIn) {
    const settlers = unit.vnodes.filter((vnode) => current.has(vnode.id));
    const reason = `needs ${bytes(memoryBytes)} of memory where the rest of its group is; ${bytes(bin.memoryLeftBytes)} are free there`;
    return { settlers, followers, reason };
  }
  bin.memoryLeftBytes -= memoryBytes;
  bin.gpusLeft -= gpus;
  bin.claimsLeft -= followers.length;
  return undefined;
}

/** The class whose PNodes are fastest together, as far as the workload can use them; newcomers count where nobody else does. */
function chooseClass(plan: PlacementPlan, fleet: Fleet, policy: Policy): string {
  const classes = fleet.classes(policy.engine);
  if (classes.length <= 1) return classes[0] ?? "";
  const sums = new Map(
    classes.map((own) => [own, { gflops: 0, known: 0, nodes: 0, policy: { ...policy, numericsClass: own } }]),
  );
  let undecided = classes.length;
  for (const pool of fleet.pools()) {
    if (undecided === 0) break;
    const own = classOf(pool.example, policy.engine);
    const sum = own === undefined ? undefined : sums.get(own);
    if (!sum || sum.nodes >= plan.vnodes.length || !poolEligible(pool, sum.policy, plan.workload)) continue;
    for (const node of pool.nodes) {
      if (!eligibleInPool(node, sum.policy, plan.workload)) continue;
      const gflops = expectedGflops(node, plan.workload);
      sum.gflops += gflops;
      if (!node.newcomer) sum.known += gflops;
      if (++sum.nodes < plan.vnodes.length) continue;
      undecided--;
      break;
    }
  }
  const counted = Array.from(sums.values()).some(({ known }) => known > 0) ? "known" : "gflops";
  const fastest = (best: string, own: string) =>
    (sums.get(own)?.[counted] ?? 0) > (sums.get(best)?.[counted] ?? 0) ? own : best;
  return classes.reduce(fastest);
}

function explain(work: Work, unit: Unit, bin: Bin | undefined, bins: readonly Bin[], copy: number): void {
  const { plan, fleet, policy } = work;
  if (!bin) {
    if (copy === 0) work.whyNot ??= reasons(fleet, policy, plan.workload, bins);
    const reason = copy === 0 ? (work.whyNot?.(unit) ?? "") : copyReason(copy, policy);
    for (const vnode of unit.vnodes) work.unplaced.push({ vnode: vnode.id, copy, reason });
    return;
  }
  const reason = `${reasonOf(bin, unit, work.slowestMs, copy)}${unprovenReason(work.crowds, bin.node, work.isFirst)}`;
  for (const vnode of unit.vnodes) {
    if ((policy.current.get(vnode.id)?.length ?? 0) > copy) continue;
    const own = policy.engine === mixedEngine ? { class: policy.numericsClass } : {};
    work.decisions.push({ vnode: vnode.id, copy, pnode: bin.node.id, reason, ...own });
  }
}

function reasons(fleet: Fleet, policy: Policy, workload: string, bins: readonly Bin[]): (unit: Unit) => string {
  const left = new Map(bins.map((one) => [one.node.id, one.memoryLeftBytes]));
  return whyNot(fleet, policy, workload, (node) => left.get(node.id) ?? node.memoryFreeBytes);
}

function reasonOf(bin: Bin, unit: Unit, slowest: number, copy: number): string {
  const speed = `${threeDigits(bin.node.gflops)} GFLOP/s`;
  const stage = `${threeDigits(stageMs(bin))} ms a step there, slowest ${threeDigits(slowest)} ms`;
  const group = unit.vnodes.length > 1 ? `, with ${unit.vnodes.length - 1} more of its group` : "";
  const which = copy > 0 ? `copy ${copy + 1}, of another owner; ` : "";
  return `${which}${speed}, ${stage}${group}`;
}

function copyReason(copy: number, { checked }: Policy): string {
  const beside = checked === undefined ? "" : " beside what checks take";
  return `copy ${copy + 1} needs a PNode of another owner with room${beside}; there is none`;
}

function* placeCopies(
  work: Work,
  bins: readonly Bin[],
  purse: Purse,
  settled: ReadonlyMap<number, PNodeId>,
  layout: Layout,
  pace: Pace,
): Search<void> {
  const { policy, fleet, crowds } = work;
  // PNodes that hold nothing but copies: what is put there counts for the copies that follow.
  const open = [...bins];
  for (const bin of open) bin.memoryLeftBytes -= crowds.keptFromCopiesOn(bin.node);
  for (const unit of work.units) {
    const primary = settled.get(unit.index) ?? bins[layout[unit.index] as number]?.node.id;
    if (primary === undefined) continue;
    const present = new Set<PNodeId>([primary]);
    for (const vnode of unit.vnodes) for (const id of policy.current.get(vnode.id) ?? []) present.add(id);
    for (let copy = present.size; copy < policy.copies; copy++) {
      if (pace.isSpent(open.length)) yield;
      const owners = new Set(Array.from(present, (id) => ownerOf(fleet.get(id), id)));
      const best = leastBusy(open, unit, purse, owners) ?? anyOther(work, unit, open, purse, owners);
      if (best) put(best, unit, purse);
      explain(work, unit, best, bins, copy);
      if (!best) break;
      present.add(best.node.id);
    }
  }
}

function leastBusy(bins: readonly Bin[], unit: Unit, purse: Purse, owners: ReadonlySet<string>): Bin | undefined {
  let best: Bin | undefined;
  for (const bin of bins) {
    if (owners.has(ownerOf(bin.node, bin.node.id)) || !fits(bin, unit, purse)) continue;
    if (!best || stageMs(bin, unit.flops) < stageMs(best, unit.flops)) best = bin;
  }
  return best;
}

/** The chosen bins may all be of one owner: then the whole fleet is searched, and what is found joins them. */
function anyOther(
  { fleet, policy, plan, crowds }: Work,
  unit: Unit,
  open: Bin[],
  purse: Purse,
  owners: ReadonlySet<string>,
): Bin | undefined {
  const known = new Set(open.map((bin) => bin.node.id));
  for (const pool of fleet.pools())
    for (const node of pool.nodes) {
      if (known.has(node.id) || owners.has(ownerOf(node, node.id)) || !eligible(node, policy, plan.workload)) continue;
      const bin = binOf(node, open.length, policy, plan.workload, crowds);
      bin.memoryLeftBytes -= crowds.keptFromCopiesOn(node);
      if (!fits(bin, unit, purse)) continue;
      open.push(bin);
      return bin;
    }
  return undefined;
}

/** PNodes that name no owner are owners of their own. */
function ownerOf(node: FleetNode | undefined, id: PNodeId): string {
  return node === undefined || node.owner === "" ? `pnode ${id}` : node.owner;
}
