// Chooses among layouts: the fastest by compute, neighbours together where that costs little, fewer PNodes where
// links are so slow that spreading would cost more than it gains.

import { contiguous, copyBins, copyPurse, exact, greedy, type Layout, slowestMs } from "./balance.ts";
import { type Bin, fits, put, stageMs } from "./bins.ts";
import { improve } from "./improve.ts";
import type { Problem } from "./problem.ts";
import { polish, trafficMs } from "./traffic.ts";

/** Exhaustive search is cheap up to here. */
const exactUnitsMax = 10;
const exactBinsMax = 12;
/** Larger plans are laid out greedily and contiguously only. */
const searchUnitsMax = 400;
const searchBinsMax = 128;
/** What traffic, reliability and price may cost in speed of the slowest stage. */
const slack = 1.02;

/** Fills nothing: returns the bin of each unit, which the caller fills. */
export function balanced(problem: Problem): Layout {
  const { units, bins } = problem;
  const full = layOut(problem, bins);
  if (units.length === 0 || units.length > searchUnitsMax || problem.settled.size > 0 || bins.length < 2) return full;
  return fewerIfFaster(problem, full);
}

function layOut(problem: Problem, bins: readonly Bin[]): Layout {
  const { units, all, purse } = problem;
  const layout: Layout = new Int32Array(all.length).fill(-1);
  if (units.length === 0) return layout;
  const filled = copyBins(bins);
  greedy(units, filled, copyPurse(purse), layout);
  if (units.some((unit) => layout[unit.index] === -1)) return packTightly(problem, bins, layout);
  let fastestMs = slowestMs(filled);
  if (units.length <= exactUnitsMax) {
    fastestMs = exact(units, copyBins(bins.slice(0, exactBinsMax)), copyPurse(purse), layout, fastestMs);
  } else if (units.length <= searchUnitsMax && bins.length <= searchBinsMax) {
    fastestMs = improve(units, refilled(problem, bins, layout), copyPurse(purse), layout);
  }
  const together = neighboursTogether(problem, bins, fastestMs * slack);
  if (together) layout.set(together);
  if (units.length <= searchUnitsMax && bins.length <= searchBinsMax)
    polish(problem, refilled(problem, bins, layout), layout, fastestMs * slack);
  return layout;
}

export function refilled(problem: Problem, bins: readonly Bin[], layout: Layout): Bin[] {
  const copy = copyBins(bins);
  const purse = copyPurse(problem.purse);
  for (const unit of problem.units) {
    const bin = copy[layout[unit.index] as number];
    if (bin) put(bin, unit, purse);
  }
  return copy;
}

/** A contiguous layout within the limit, if there is one and nothing has its place yet. */
function neighboursTogether(problem: Problem, bins: readonly Bin[], limitMs: number): Layout | undefined {
  if (problem.settled.size > 0) return undefined;
  const layout: Layout = new Int32Array(problem.all.length).fill(-1);
  return contiguous(problem.units, copyBins(bins), copyPurse(problem.purse), layout, limitMs) ? layout : undefined;
}

/** Speed-first left something without room: largest memory first wastes least. Takes what places more. */
function packTightly(problem: Problem, bins: readonly Bin[], layout: Layout): Layout {
  const packed: Layout = new Int32Array(problem.all.length).fill(-1);
  const filled = copyBins(bins);
  const purse = copyPurse(problem.purse);
  const byMemory = [...problem.units].sort((a, b) => b.memoryBytes - a.memoryBytes || a.index - b.index);
  for (const unit of byMemory) {
    let best: Bin | undefined;
    for (const bin of filled)
      if (fits(bin, unit, purse) && (!best || stageMs(bin, unit.flops) < stageMs(best, unit.flops))) best = bin;
    if (!best) continue;
    packed[unit.index] = best.index;
    put(best, unit, purse);
  }
  const placed = (one: Layout) => one.reduce((sum, bin) => sum + (bin === -1 ? 0 : 1), 0);
  return placed(packed) > placed(layout) ? packed : layout;
}

/** If links are slower than compute, the fastest few PNodes alone may be faster than all. */
function fewerIfFaster(problem: Problem, full: Layout): Layout {
  const estimateMs = (layout: Layout) => {
    const bins = refilled(problem, problem.bins, layout);
    return Math.max(slowestMs(bins), trafficMs(problem, bins, layout).slowestMs);
  };
  let best = full;
  let bestMs = estimateMs(full);
  if (trafficMs(problem, problem.bins, full).slowestMs < bestMs) return full;
  for (let count = 1; count < problem.bins.length; count *= 2) {
    const layout = layOut(problem, problem.bins.slice(0, count));
    if (problem.units.some((unit) => layout[unit.index] === -1)) continue;
    const layoutMs = estimateMs(layout);
    if (layoutMs >= bestMs) continue;
    best = layout;
    bestMs = layoutMs;
  }
  return best;
}
