// What a layout costs beyond compute: traffic over measured links, risk, price, data that has to be fetched.
// `polish` lowers it without making the slowest stage slower than allowed.

import type { Layout } from "./balance.ts";
import { type Bin, copyPurse, fits, stageMs } from "./bins.ts";
import { transfer } from "./improve.ts";
import type { Pace, Search } from "./pace.ts";
import type { Problem } from "./problem.ts";
import type { Unit } from "./units.ts";

const passesMax = 3;
/** Latency counts for each of a few messages that a step waits for, one after another. */
const waitsPerStep = 2;
/** A price of 1 an hour weighs as much as this many milliseconds a step. */
const msPerPrice = 5;
/** Fetching shards that another PNode already has. */
const msPerFetch = 1;
/** What a cost takes to compute, in looks. */
const looksPerCost = 10;

export interface Traffic {
  readonly totalMs: number;
  /** Time that the busiest PNode spends on its links in one step. */
  readonly slowestMs: number;
}

export function trafficMs(problem: Problem, bins: readonly Bin[], layout: Layout): Traffic {
  const perBin = new Map<number, number>();
  let totalMs = 0;
  const at = placesOf(problem, bins, layout);
  for (const edge of problem.edges) {
    const ms = edgeMs(problem, bins, at(edge.from), at(edge.to), edge.bytes);
    if (ms === 0) continue;
    totalMs += ms;
    for (const end of [at(edge.from), at(edge.to)]) perBin.set(end, (perBin.get(end) ?? 0) + ms);
  }
  return { totalMs, slowestMs: Math.max(0, ...perBin.values()) };
}

/** The bin of any unit, those that stay included; -1 if it has none. */
function placesOf(problem: Problem, bins: readonly Bin[], layout: Layout): (unit: number) => number {
  if (problem.settled.size === 0) return (unit) => layout[unit] as number;
  const byId = new Map(bins.map((bin) => [bin.node.id as string, bin.index]));
  return (unit) => {
    const settled = problem.settled.get(unit);
    return settled === undefined ? (layout[unit] as number) : (byId.get(settled) ?? -1);
  };
}

function edgeMs(problem: Problem, bins: readonly Bin[], from: number, to: number, bytes: number): number {
  const a = bins[from];
  const b = bins[to];
  if (!a || !b || a === b) return 0;
  const link = problem.fleet.link(a.node, b.node);
  return (bytes / Math.max(1, link.bytesPerSecond)) * 1000 + waitsPerStep * link.latencyMs;
}

interface Neighbour {
  readonly other: number;
  readonly bytes: number;
}

function neighboursOf(problem: Problem): (unit: number) => readonly Neighbour[] {
  const neighbours: Neighbour[][] = problem.all.map(() => []);
  for (const { from, to, bytes } of problem.edges) {
    neighbours[from]?.push({ other: to, bytes });
    neighbours[to]?.push({ other: from, bytes });
  }
  return (unit) => neighbours[unit] ?? [];
}

/** Moves units to PNodes where they cost less, while no stage exceeds `limitMs`. `bins` hold the layout. */
export function* polish(
  problem: Problem,
  bins: readonly Bin[],
  layout: Layout,
  limitMs: number,
  pace: Pace,
): Search<void> {
  const purse = copyPurse(problem.purse);
  for (const index of layout) if (bins[index]) purse.used.add((bins[index] as Bin).node.id);
  const at = placesOf(problem, bins, layout);
  const neighbours = neighboursOf(problem);
  const { holdsData } = problem.policy;
  /** What a unit costs there; not counted to the end once it is clear that it costs no less than `mostMs`. */
  const costMs = (unit: Unit, bin: Bin, mostMs: number) => {
    const { node } = bin;
    let sum = node.pricePerHour * msPerPrice + (holdsData.has(node.id) ? 0 : msPerFetch);
    sum += (unit.flops / bin.flopsPerMs) * (1 - node.reliability);
    for (const { other, bytes } of neighbours(unit.index)) {
      if (sum >= mostMs) break;
      sum += edgeMs(problem, bins, bin.index, at(other), bytes);
    }
    return sum;
  };
  const held = new Map<number, Unit[]>(bins.map((bin) => [bin.index, []]));
  for (const unit of problem.units) held.get(layout[unit.index] as number)?.push(unit);
  for (let pass = 0; pass < passesMax; pass++) {
    let moved = false;
    for (const unit of problem.units) {
      const home = bins[layout[unit.index] as number] as Bin;
      let best = home;
      let bestMs = costMs(unit, home, Number.POSITIVE_INFINITY) * 0.999;
      for (const bin of bins) {
        if (bin === home || stageMs(bin, unit.flops) > limitMs || !fits(bin, unit, purse)) continue;
        const ms = costMs(unit, bin, bestMs);
        if (ms < bestMs) {
          best = bin;
          bestMs = ms;
        }
      }
      if (pace.isSpent(looksPerCost * bins.length)) yield;
      if (best === home) continue;
      transfer(unit, home, best, held, layout, purse);
      moved = true;
    }
    if (!moved) return;
  }
}
