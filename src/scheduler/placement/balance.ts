// Balanced pipelines: the slowest PNode decides the speed of all, so its share of a step is made as short as
// possible. Greedy for any size, exact for small ones, contiguous where that costs nothing.

import { type Bin, fits, type Purse, put, stageMs } from "./bins.ts";
import type { Unit } from "./units.ts";

/** Bin index for each unit, -1 where none fits. */
export type Layout = Int32Array;

export function copyBins(bins: readonly Bin[]): Bin[] {
  return bins.map((bin) => ({ ...bin }));
}

export function copyPurse(purse: Purse): Purse {
  return { ...purse, used: new Set(purse.used) };
}

export function slowestMs(bins: readonly Bin[]): number {
  return bins.reduce((slowest, bin) => Math.max(slowest, stageMs(bin)), 0);
}

/** Largest first, each to the PNode that is done with it soonest. */
export function greedy(units: readonly Unit[], bins: readonly Bin[], purse: Purse, layout: Layout): void {
  const largestFirst = [...units].sort((a, b) => b.flops - a.flops || a.index - b.index);
  for (const unit of largestFirst) {
    let best: Bin | undefined;
    let bestMs = Number.POSITIVE_INFINITY;
    for (const bin of bins) {
      const doneMs = (bin.flops + unit.flops) / bin.flopsPerMs;
      if (doneMs < bestMs && fits(bin, unit, purse)) {
        best = bin;
        bestMs = doneMs;
      }
    }
    layout[unit.index] = best ? best.index : -1;
    if (best) put(best, unit, purse);
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

const exactStepsMax = 60_000;

/** Branch and bound over all layouts; keeps `layout` if it finds nothing faster within its budget. Returns the slowest stage. */
export function exact(
  units: readonly Unit[],
  bins: readonly Bin[],
  purse: Purse,
  layout: Layout,
  boundMs: number,
): number {
  const order = [...units].sort((a, b) => b.flops - a.flops || a.index - b.index);
  const speed = bins.reduce((sum, bin) => sum + bin.flopsPerMs, 0);
  const flops = bins.reduce((sum, bin) => sum + bin.flops, 0) + order.reduce((sum, unit) => sum + unit.flops, 0);
  const idealMs = flops / speed;
  const trial = new Int32Array(layout.length).fill(-1);
  let bestMs = boundMs;
  let steps = 0;
  const search = (depth: number, slowMs: number): void => {
    if (++steps > exactStepsMax || bestMs <= idealMs * 1.000001) return;
    const unit = order[depth];
    if (!unit) {
      bestMs = slowMs;
      for (const one of order) layout[one.index] = trial[one.index] as number;
      return;
    }
    const tried = new Set<string>();
    for (const bin of bins) {
      const doneMs = Math.max(slowMs, stageMs(bin, unit.flops));
      // Equal PNodes in equal state lead to equal layouts.
      const alike = `${bin.flopsPerMs}/${bin.flops}/${bin.memoryLeftBytes}/${bin.gpusLeft}/${bin.unitsLeft}/${unit.avoid.has(bin.node.id)}`;
      if (doneMs >= bestMs * 0.999999 || tried.has(alike) || !fits(bin, unit, purse)) continue;
      tried.add(alike);
      const before = { flops: bin.flops, memory: bin.memoryLeftBytes, gpus: bin.gpusLeft, units: bin.unitsLeft };
      const fresh = !purse.used.has(bin.node.id);
      put(bin, unit, purse);
      trial[unit.index] = bin.index;
      search(depth + 1, doneMs);
      bin.flops = before.flops;
      bin.memoryLeftBytes = before.memory;
      bin.gpusLeft = before.gpus;
      bin.unitsLeft = before.units;
      if (fresh) {
        purse.used.delete(bin.node.id);
        purse.pricePerHour -= bin.node.pricePerHour;
      }
    }
  };
  search(0, slowestMs(bins));
  return bestMs;
}
