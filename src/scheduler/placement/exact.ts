// The best layout of a few units, by branch and bound: what a greedy one misses is worth the search while it is small.

import { type Layout, largestFirst, slowestMs } from "./balance.ts";
import { type Bin, fits, type Purse, put } from "./bins.ts";
import { areAlike, count } from "./crowds.ts";
import type { Unit } from "./units.ts";

const stepsMax = 60_000;
/** Differences below this share are rounding. */
const rounding = 1e-6;

/** Keeps `layout` if it finds nothing faster within its budget. Returns the slowest stage. */
export function exact(
  units: readonly Unit[],
  bins: readonly Bin[],
  purse: Purse,
  layout: Layout,
  boundMs: number,
): number {
  const search = new ExactSearch(units, bins, purse, layout, boundMs);
  search.from(0, slowestMs(bins));
  return search.bestMs;
}

class ExactSearch {
  bestMs: number;
  readonly #order: readonly Unit[];
  readonly #bins: readonly Bin[];
  readonly #purse: Purse;
  readonly #layout: Layout;
  readonly #trial: Layout;
  readonly #idealMs: number;
  #steps = 0;

  constructor(units: readonly Unit[], bins: readonly Bin[], purse: Purse, layout: Layout, boundMs: number) {
    this.#order = largestFirst(units);
    this.#bins = bins;
    this.#purse = purse;
    this.#layout = layout;
    this.#trial = new Int32Array(units.length);
    this.bestMs = boundMs;
    let speed = 0;
    let flops = 0;
    for (const bin of bins) {
      speed += bin.flopsPerMs;
      flops += bin.flops;
    }
    for (const unit of units) flops += unit.flops;
    this.#idealMs = flops / speed;
  }

  /** Tries all places for the units from `depth` on, those before it being placed with this slowest stage. */
  from(depth: number, slowMs: number): void {
    if (++this.#steps > stepsMax || this.bestMs <= this.#idealMs * (1 + rounding)) return;
    const unit = this.#order[depth];
    if (!unit) {
      this.bestMs = slowMs;
      this.#order.forEach((one, i) => {
        this.#layout[one.index] = this.#trial[i] as number;
      });
      return;
    }
    for (let at = 0; at < this.#bins.length; at++) {
      const bin = this.#bins[at] as Bin;
      const doneMs = Math.max(slowMs, (bin.flops + unit.flops) / bin.flopsPerMs);
      if (doneMs >= this.bestMs * (1 - rounding) || !fits(bin, unit, this.#purse)) continue;
      if (this.#hasTwin(at, bin, unit)) continue;
      // Restored, not computed back: sums that come and go would drift.
      const { flops, memoryLeftBytes, gpusLeft } = bin;
      const { pricePerHour } = this.#purse;
      const isFirst = put(bin, unit, this.#purse);
      this.#trial[depth] = bin.index;
      this.from(depth + 1, doneMs);
      bin.flops = flops;
      bin.memoryLeftBytes = memoryLeftBytes;
      bin.gpusLeft = gpusLeft;
      count(bin.crowds, -1);
      bin.claimsLeft += unit.vnodes.length;
      if (!isFirst) continue;
      this.#purse.used.delete(bin.node.id);
      this.#purse.pricePerHour = pricePerHour;
    }
  }

  /** Equal PNodes in equal state lead to equal layouts. */
  #hasTwin(at: number, bin: Bin, unit: Unit): boolean {
    for (let earlier = 0; earlier < at; earlier++) {
      const other = this.#bins[earlier] as Bin;
      if (
        other.flopsPerMs === bin.flopsPerMs &&
        other.flops === bin.flops &&
        other.memoryLeftBytes === bin.memoryLeftBytes &&
        other.gpusLeft === bin.gpusLeft &&
        other.claimsLeft === bin.claimsLeft &&
        areAlike(other.crowds, bin.crowds) &&
        fits(other, unit, this.#purse)
      )
        return true;
    }
    return false;
  }
}
