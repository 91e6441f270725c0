// PNodes while they are being filled: what is left of them, and how long their part of a step takes so far.

import { claimsMax } from "../room.ts";
import { eligibleInPool, gpusFree, poolEligible } from "./constraints.ts";
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
  /** How many units more it may get; of newcomers few. */
  unitsLeft: number;
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
    bin.unitsLeft < 1 ||
    bin.claimsLeft < unit.vnodes.length ||
    bin.memoryLeftBytes < unit.memoryBytes ||
    bin.gpusLeft < unit.gpus ||
    unit.avoid.has(bin.node.id)
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
  bin.unitsLeft--;
  bin.claimsLeft -= unit.vnodes.length;
  if (purse.used.has(bin.node.id)) return false;
  purse.used.add(bin.node.id);
  purse.pricePerHour += bin.node.pricePerHour;
  return true;
}

export function copyBins(bins: readonly Bin[]): Bin[] {
  return bins.map((bin) => copyBin(bin, bin.index));
}

/** Field by field: bins are copied more often than anything else here. */
function copyBin(bin: Bin, index: number): Bin {
  const { node, flopsPerMs, flops, memoryLeftBytes, gpusLeft, unitsLeft, claimsLeft } = bin;
  return { node, index, flopsPerMs, flops, memoryLeftBytes, gpusLeft, unitsLeft, claimsLeft };
}

export function copyPurse({ pricePerHour, pricePerHourMax, used }: Purse): Purse {
  return { pricePerHour, pricePerHourMax, used: new Set(used) };
}

export function binOf(node: FleetNode, index: number, policy: Policy, workload: string): Bin {
  // The workload's own reservation is not for its single VNodes, unless they ask for GPUs themselves.
  const reserved = node.hosts.has(workload) ? 0 : policy.requirements.gpus;
  let claims = 0;
  for (const count of node.hosts.values()) claims += count;
  return {
    node,
    index,
    flopsPerMs: expectedGflops(node, workload) * 1e6,
    flops: 0,
    memoryLeftBytes: node.memoryFreeBytes,
    gpusLeft: gpusFree(node, policy.requirements.gpuMemoryBytes) - reserved,
    unitsLeft: Number.POSITIVE_INFINITY,
    claimsLeft: claimsMax - claims,
  };
}

/** More PNodes than twice the units cannot make the slowest of them faster. */
function wantedBins(units: number): number {
  return 2 * units + 16;
}

/** Of a workload's units, what newcomers get together as long as others have room for the rest. */
const newcomersShare = 0.3;

/** One unit at least, so that a newcomer can show what it does; a workload of a single one is for others. */
function newcomersUnits(units: number): number {
  return units < 2 ? 0 : Math.max(1, Math.floor(newcomersShare * units));
}

/** What choosing a PNode takes, in looks. */
const looksPerChoice = 50;

export interface Choice {
  /** The whole fleet, for when the fastest had no room. */
  readonly everything: boolean;
  /** Of all units of the workload, for the newcomers' share; absent: newcomers are like everybody. */
  readonly unitsInAll?: number;
}

/** PNodes worth looking at, fastest first: those that host the workload, and from each eligible pool the fastest. */
export function* chooseBins(
  fleet: Fleet,
  policy: Policy,
  workload: string,
  units: readonly Unit[],
  { everything, unitsInAll }: Choice,
  pace: Pace,
): Search<Bin[]> {
  const wanted = everything ? Number.POSITIVE_INFINITY : wantedBins(units.length);
  const newcomersMax = unitsInAll === undefined ? 0 : newcomersUnits(unitsInAll);
  const memoryLeast = units.reduce((least, unit) => Math.min(least, unit.memoryBytes), Number.POSITIVE_INFINITY);
  const chosen = new Map<string, FleetNode>();
  const hosted = new Map<string, number>();
  for (const members of policy.current.values())
    for (const id of members) {
      const node = fleet.get(id);
      if (!node) continue;
      chosen.set(id, node);
      hosted.set(id, (hosted.get(id) ?? 0) + 1);
    }
  const spare: FleetNode[] = [];
  const newcomers: FleetNode[] = [];
  for (const pool of fleet.pools()) {
    if (chosen.size >= wanted) break;
    if (pool.memoryBelowBytes <= memoryLeast || !poolEligible(pool, policy, workload)) continue;
    for (const node of pool.nodes) {
      if (chosen.size >= wanted) break;
      if (node.memoryFreeBytes < memoryLeast || chosen.has(node.id) || !eligibleInPool(node, policy, workload))
        continue;
      // Whoever comes and goes is taken only if there are too few others.
      if (node.flapping) spare.push(node);
      else if (!node.newcomer || unitsInAll === undefined) chosen.set(node.id, node);
      else if (newcomers.length < newcomersMax) newcomers.push(node);
    }
  }
  for (const node of newcomers) chosen.set(node.id, node);
  for (const node of spare) if (everything || chosen.size < units.length) chosen.set(node.id, node);
  const takers = Array.from(chosen.values());
  // Not before: pools may change while others have their turn, the nodes that were taken from them do not.
  if (pace.isSpent(looksPerChoice * takers.length)) yield;
  const each = Math.floor(newcomersMax / Math.max(1, takers.filter(({ newcomer }) => newcomer).length));
  const bins = takers.map((node, index) => {
    const bin = binOf(node, index, policy, workload);
    if (node.newcomer && unitsInAll !== undefined) bin.unitsLeft = Math.max(0, each - (hosted.get(node.id) ?? 0));
    return bin;
  });
  bins.sort(
    (a, b) =>
      b.flopsPerMs - a.flopsPerMs ||
      (a.node.region < b.node.region ? -1 : a.node.region > b.node.region ? 1 : a.node.id < b.node.id ? -1 : 1),
  );
  return bins.map(copyBin);
}
