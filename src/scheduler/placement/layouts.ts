// Chooses among layouts: the fastest by compute, neighbours together where that costs little, fewer PNodes where
// links are so slow that spreading would cost more than it gains.

import { contiguous, greedy, type Layout, slowestMs } from "./balance.ts";
import { type Bin, copyBins, copyPurse, fits, put, stageMs } from "./bins.ts";
import { exact } from "./exact.ts";
import { improve } from "./improve.ts";
import type { Pace, Search } from "./pace.ts";
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
/** And neighbours together: each message between machines takes their processors too, whatever the link. */
const togetherSlack = 1.05;
/** Up to so many PNodes every order of them along the pipeline is tried; of more, both directions. */
const ordersOf = 4;

/** What copying a bin takes, in looks. */
const looksPerCopy = 10;

/** Fills nothing: returns the bin of each unit, which the caller fills. */
export function* balanced(problem: Problem, pace: Pace): Search<Layout> {
  const { units, bins } = problem;
  const full = yield* layOut(problem, bins, pace);
  if (units.length === 0 || units.length > searchUnitsMax || problem.settled.size > 0 || bins.length < 2) return full;
  return yield* fewerIfFaster(problem, full, pace);
}

function* layOut(problem: Problem, bins: readonly Bin[], pace: Pace): Search<Layout> {
  const { units, all, purse } = problem;
  const layout: Layout = new Int32Array(all.length).fill(-1);
  if (units.length === 0) return layout;
  const filled = copyBins(bins);
  yield* greedy(units, filled, copyPurse(purse), layout, pace);
  if (units.some((unit) => layout[unit.index] === -1)) return yield* packTightly(problem, bins, layout, pace);
  const isSearched = units.length <= searchUnitsMax && bins.length <= searchBinsMax;
  let fastestMs = slowestMs(filled);
  if (units.length <= exactUnitsMax) {
    fastestMs = exact(units, copyBins(bins.slice(0, exactBinsMax)), copyPurse(purse), layout, fastestMs);
  } else if (isSearched) {
    fastestMs = yield* improve(units, refilled(problem, bins, layout), copyPurse(purse), layout, pace);
  }
  if (pace.isSpent(looksPerCopy * bins.length)) yield;
  const together = neighboursTogether(problem, bins, layout, fastestMs * togetherSlack);
  if (together) layout.set(together);
  if (isSearched) yield* polish(problem, refilled(problem, bins, layout), layout, fastestMs * slack, pace);
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

/**
 * A contiguous layout within the limit, if there is one and nothing has its place yet: on the PNodes of the fastest layout, in whichever
 * order of them the slowest stage is shortest. The one that has a little less to do is not always the first.
 */
function neighboursTogether(
  problem: Problem,
  bins: readonly Bin[],
  fastest: Layout,
  limitMs: number,
): Layout | undefined {
  if (problem.settled.size > 0) return undefined;
  const indices = new Set(fastest);
  const used = bins.filter(({ index }) => indices.has(index));
  let best: { readonly layout: Layout; readonly ms: number } | undefined;
  for (const order of used.length <= ordersOf ? permutations(used) : [bins, bins.toReversed()]) {
    const layout: Layout = new Int32Array(problem.all.length).fill(-1);
    const filled = copyBins(order);
    if (!contiguous(problem.units, filled, copyPurse(problem.purse), layout, limitMs)) continue;
    const ms = slowestMs(filled);
    if (best === undefined || ms < best.ms) best = { layout, ms };
  }
  return best?.layout;
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]];
  return items.flatMap((first, at) => permutations(items.toSpliced(at, 1)).map((rest) => [first, ...rest]));
}

/** Speed-first left something without room: largest memory first wastes least. Takes what places more. */
function* packTightly(problem: Problem, bins: readonly Bin[], layout: Layout, pace: Pace): Search<Layout> {
  const packed: Layout = new Int32Array(problem.all.length).fill(-1);
  const filled = copyBins(bins);
  const purse = copyPurse(problem.purse);
  const byMemory = [...problem.units].sort((a, b) => b.memoryBytes - a.memoryBytes || a.index - b.index);
  for (const unit of byMemory) {
    let best: Bin | undefined;
    for (const bin of filled)
      if (fits(bin, unit, purse) && (!best || stageMs(bin, unit.flops) < stageMs(best, unit.flops))) best = bin;
    if (pace.isSpent(filled.length)) yield;
    if (!best) continue;
    packed[unit.index] = best.index;
    put(best, unit, purse);
  }
  const placed = (one: Layout) => one.reduce((sum, bin) => sum + (bin === -1 ? 0 : 1), 0);
  return placed(packed) > placed(layout) ? packed : layout;
}

/** If links are slower than compute, the fastest few PNodes alone may be faster than all. */
function* fewerIfFaster(problem: Problem, full: Layout, pace: Pace): Search<Layout> {
  const { bins, units } = problem;
  const estimateMs = (layout: Layout) => {
    const filled = refilled(problem, bins, layout);
    return Math.max(slowestMs(filled), trafficMs(problem, filled, layout).slowestMs);
  };
  let best = full;
  let bestMs = estimateMs(full);
  if (trafficMs(problem, bins, full).slowestMs < bestMs) return full;
  const flops = units.reduce((sum, unit) => sum + unit.flops, 0);
  let speed = 0;
  let counted = 0;
  for (let count = 1; count < bins.length; count *= 2) {
    while (counted < count) speed += (bins[counted++] as Bin).flopsPerMs;
    // Perfectly shared among so few it would still take longer.
    if (flops / speed >= bestMs) continue;
    const layout = yield* layOut(problem, bins.slice(0, count), pace);
    if (units.some((unit) => layout[unit.index] === -1)) continue;
    const layoutMs = estimateMs(layout);
    if (layoutMs >= bestMs) continue;
    best = layout;
    bestMs = layoutMs;
  }
  return best;
}
