// PNodes while they are being filled: what is left of them, and how long their part of a step takes so far.

import { claimsMax } from "../room.ts";
import { eligibleInPool, gpusFree, poolEligible } from "./constraints.ts";
import { type Crowd, type Crowds, count, crowdCopier, hasRoom } from "./crowds.ts";
import type { Fleet } from "./fleet.ts";
import { expectedGflops } from "./fleet.ts";
import type { Pace, Search } from "./pace.ts";
import type { FleetNode, Policy } from "./types.ts";
import type { Unit } from "./units.ts";

export interface Bin {
  readonly node: FleetNode;
  readonly index: number;
  readonly flopsPerMs: number;
  flops: number;
  memoryLeftBytes: number;
  gpusLeft: number;
  /** Those that it shares a limit with; none if it is proven. */
  readonly crowds: readonly Crowd[];
  /** How many VNodes more its room record can name. */
  claimsLeft: number;
}

/** What the whole placement may still spend and has reserved. */
export interface Purse {
  pricePerHour: number;
  readonly pricePerHourMax: number;
  readonly used: Set<string>;
}

export function stageMs(bin: Bin, more = 0): number {
  return (bin.flops + more) / bin.flopsPerMs;
}

export function fits(bin: Bin, unit: Unit, purse: Purse): boolean {
  if (
    bin.claimsLeft < unit.vnodes.length ||
    bin.memoryLeftBytes < unit.memoryBytes ||
    bin.gpusLeft < unit.gpus ||
    unit.avoid.has(bin.node.id) ||
    !hasRoom(bin.crowds)
  )
    return false;
  if (purse.pricePerHourMax === 0 || purse.used.has(bin.node.id)) return true;
  return purse.pricePerHour + bin.node.pricePerHour <= purse.pricePerHourMax;
}

/** True if it is the first that the placement puts there. */
export function put(bin: Bin, unit: Unit, purse: Purse): boolean {
  bin.flops += unit.flops;
  bin.memoryLeftBytes -= unit.memoryBytes;
  bin.gpusLeft -= unit.gpus;
  count(bin.crowds, 1);
  bin.claimsLeft -= unit.vnodes.length;
  if (purse.used.has(bin.node.id)) return false;
  purse.used.add(bin.node.id);
  purse.pricePerHour += bin.node.pricePerHour;
  return true;
}

export function copyBins(bins: readonly Bin[]): Bin[] {
  const copied = crowdCopier();
  return bins.map((bin) => copyBin(bin, bin.index, copied(bin.crowds)));
}

/** Field by field: bins are copied more often than anything else here. */
function copyBin(bin: Bin, index: number, crowds: readonly Crowd[]): Bin {
  const { node, flopsPerMs, flops, memoryLeftBytes, gpusLeft, claimsLeft } = bin;
  return { node, index, flopsPerMs, flops, memoryLeftBytes, gpusLeft, claimsLeft, crowds };
}

export function copyPurse({ pricePerHour, pricePerHourMax, used }: Purse): Purse {
  return { pricePerHour, pricePerHourMax, used: new Set(used) };
}

export function binOf(node: FleetNode, index: number, policy: Policy, workload: string, crowds: Crowds): Bin {
  // The workload's own reservation is not for its single VNodes, unless they ask for GPUs themselves.
  const reserved = node.hosts.has(workload) ? 0 : policy.requirements.gpus;
  let claims = 0;
  for (const count of node.hosts.values()) claims += count;
  return {
    node,
    index,
    flopsPerMs: expectedGflops(node, workload) * 1e6,
    flops: 0,
    memoryLeftBytes: node.memoryFreeBytes - crowds.keptFreeOn(node),
    gpusLeft: gpusFree(node, policy.requirements.gpuMemoryBytes) - reserved,
    claimsLeft: claimsMax - claims,
    crowds: crowds.of(node),
  };
}

/** More PNodes than twice the units cannot make the slowest of them faster. */
function wantedBins(units: number): number {
  return 2 * units + 16;
}

/** What choosing a PNode takes, in looks. */
const looksPerChoice = 50;

export interface Choice {
  /** The whole fleet, for when the fastest had no room. */
  readonly everything: boolean;
  readonly crowds: Crowds;
}

/** PNodes worth looking at, fastest first: those that host the workload, and from each eligible pool the fastest. */
export function* chooseBins(
  fleet: Fleet,
  policy: Policy,
  workload: string,
  units: readonly Unit[],
  { everything, crowds }: Choice,
  pace: Pace,
): Search<Bin[]> {
  const wanted = everything ? Number.POSITIVE_INFINITY : wantedBins(units.length);
  const memoryLeast = units.reduce((least, unit) => Math.min(least, unit.memoryBytes), Number.POSITIVE_INFINITY);
  const chosen = new Map<string, FleetNode>();
  for (const members of policy.current.values())
    for (const id of members) {
      const node = fleet.get(id);
      if (node) chosen.set(id, node);
    }
  const spare: FleetNode[] = [];
  const unproven: FleetNode[] = [];
  // More machines of a crowd than units for it are of no use, however fast they say they are.
  const copied = crowdCopier();
  for (const pool of fleet.pools()) {
    if (chosen.size >= wanted) break;
    if (pool.memoryBelowBytes <= memoryLeast || !poolEligible(pool, policy, workload)) continue;
    for (const node of pool.nodes) {
      if (chosen.size >= wanted) break;
      if (
        node.memoryFreeBytes - crowds.keptFreeOn(node) < memoryLeast ||
        chosen.has(node.id) ||
        !eligibleInPool(node, policy, workload)
      )
        continue;
      const limits = copied(crowds.of(node));
      // Whoever comes and goes is taken only if there are too few others.
      if (node.flapping) spare.push(node);
      else if (limits.length === 0) chosen.set(node.id, node);
      else if (hasRoom(limits)) {
        count(limits, 1);
        unproven.push(node);
      }
    }
  }
  for (const node of unproven) chosen.set(node.id, node);
  for (const node of spare) if (everything || chosen.size < units.length) chosen.set(node.id, node);
  const takers = Array.from(chosen.values());
  // Not before: pools may change while others have their turn, the nodes that were taken from them do not.
  if (pace.isSpent(looksPerChoice * takers.length)) yield;
  const bins = takers.map((node, index) => binOf(node, index, policy, workload, crowds));
  bins.sort(
    (a, b) =>
      b.flopsPerMs - a.flopsPerMs ||
      (a.node.region < b.node.region ? -1 : a.node.region > b.node.region ? 1 : a.node.id < b.node.id ? -1 : 1),
  );
  return bins.map((bin, index) => copyBin(bin, index, bin.crowds));
}
