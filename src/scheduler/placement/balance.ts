// Balanced pipelines: the slowest PNode decides the speed of all, so its share of a step is made as short as
// possible. Greedy for any size, contiguous where that costs nothing; exact.ts for small ones.

import { type Bin, fits, type Purse, put, stageMs } from "./bins.ts";
import type { Pace, Search } from "./pace.ts";
import type { Unit } from "./units.ts";

/** Bin index for each unit, -1 where none fits. */
export type Layout = Int32Array;

export function slowestMs(bins: readonly Bin[]): number {
  let slowest = 0;
  for (const bin of bins) slowest = Math.max(slowest, stageMs(bin));
  return slowest;
}

export function largestFirst(units: readonly Unit[]): Unit[] {
  return [...units].sort((a, b) => b.flops - a.flops || a.index - b.index);
}

/** Largest first, each to the PNode that is done with it soonest. `bins` are in order of speed, the fastest first. */
export function* greedy(
  units: readonly Unit[],
  bins: readonly Bin[],
  purse: Purse,
  layout: Layout,
  pace: Pace,
): Search<void> {
  // Beside the bins, since this is read millions of times.
  const flops = Float64Array.from(bins, (bin) => bin.flops);
  const flopsPerMs = Float64Array.from(bins, (bin) => bin.flopsPerMs);
  /** From here on all bins are empty. */
  let untouched = flops.findLastIndex((one) => one > 0) + 1;
  for (const unit of largestFirst(units)) {
    let best: Bin | undefined;
    let bestMs = Number.POSITIVE_INFINITY;
    let at = 0;
    for (; at < bins.length; at++) {
      const doneMs = ((flops[at] as number) + unit.flops) / (flopsPerMs[at] as number);
      if (doneMs < bestMs) {
        const bin = bins[at] as Bin;
        if (!fits(bin, unit, purse)) continue;
        best = bin;
        bestMs = doneMs;
      }
      // Of empty ones none that follows is done sooner.
      if (at >= untouched) break;
    }
    if (pace.isSpent(at)) yield;
    layout[unit.index] = best ? best.index : -1;
    if (!best) continue;
    put(best, unit, purse);
    flops[best.index] = best.flops;
    untouched = Math.max(untouched, best.index + 1);
  }
}

/** In topological order, each PNode filled up to `limitMs` before the next: neighbours stay together. False if it does not fit. */
export function contiguous(
  units: readonly Unit[],
  bins: readonly Bin[],
  purse: Purse,
  layout: Layout,
  limitMs: number,
): boolean {
  let at = 0;
  for (const unit of units) {
    while (at < bins.length && !(stageMs(bins[at] as Bin, unit.flops) <= limitMs && fits(bins[at] as Bin, unit, purse)))
      at++;
    const bin = bins[at];
    if (!bin) return false;
    layout[unit.index] = bin.index;
    put(bin, unit, purse);
  }
  return true;
}
