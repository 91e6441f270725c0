// Local search on the slowest stage: moves a unit away from the slowest PNode, or swaps it for a smaller one,
// for as long as that shortens the step.

import type { Layout } from "./balance.ts";
import { slowestMs } from "./balance.ts";
import { type Bin, fits, type Purse, put, stageMs } from "./bins.ts";
import { count } from "./crowds.ts";
import type { Pace, Search } from "./pace.ts";
import type { Unit } from "./units.ts";

const roundsMax = 400;

/** `bins` hold the units as `layout` says; both are changed. Returns the slowest stage. */
export function* improve(
  units: readonly Unit[],
  bins: readonly Bin[],
  purse: Purse,
  layout: Layout,
  pace: Pace,
): Search<number> {
  const held = new Map<number, Unit[]>(bins.map((bin) => [bin.index, []]));
  for (const unit of units) held.get(layout[unit.index] as number)?.push(unit);
  for (let round = 0; round < roundsMax; round++) {
    const slow = bins.reduce((worst, bin) => (stageMs(bin) > stageMs(worst) ? bin : worst), bins[0] as Bin);
    const change = bestChange(slow, bins, held, purse);
    if (pace.isSpent((held.get(slow.index)?.length ?? 0) * (bins.length + units.length))) yield;
    if (!change) break;
    transfer(change.unit, slow, change.bin, held, layout, purse);
    if (change.swapped) transfer(change.swapped, change.bin, slow, held, layout, purse);
  }
  return slowestMs(bins);
}

interface Change {
  readonly unit: Unit;
  readonly bin: Bin;
  readonly swapped?: Unit;
  readonly ms: number;
}

function bestChange(
  slow: Bin,
  bins: readonly Bin[],
  held: ReadonlyMap<number, readonly Unit[]>,
  purse: Purse,
): Change | undefined {
  let best: Change | undefined;
  const consider = (change: Change) => {
    if (change.ms < (best?.ms ?? stageMs(slow) * 0.9999)) best = change;
  };
  for (const unit of held.get(slow.index) ?? []) {
    for (const bin of bins) {
      if (bin === slow) continue;
      if (fits(bin, unit, purse))
        consider({ unit, bin, ms: Math.max(stageMs(slow, -unit.flops), stageMs(bin, unit.flops)) });
      for (const swapped of held.get(bin.index) ?? []) {
        const gain = unit.flops - swapped.flops;
        if (gain <= 0 || !fitsInExchange(bin, unit, swapped) || !fitsInExchange(slow, swapped, unit)) continue;
        consider({ unit, bin, swapped, ms: Math.max(stageMs(slow, -gain), stageMs(bin, gain)) });
      }
    }
  }
  return best;
}

function fitsInExchange(bin: Bin, comes: Unit, goes: Unit): boolean {
  return (
    bin.memoryLeftBytes + goes.memoryBytes >= comes.memoryBytes &&
    bin.claimsLeft + goes.vnodes.length >= comes.vnodes.length &&
    bin.gpusLeft + goes.gpus >= comes.gpus &&
    !comes.avoid.has(bin.node.id)
  );
}

export function transfer(
  unit: Unit,
  from: Bin,
  to: Bin,
  held: ReadonlyMap<number, Unit[]>,
  layout: Layout,
  purse: Purse,
): void {
  const list = held.get(from.index);
  list?.splice(list.indexOf(unit), 1);
  held.get(to.index)?.push(unit);
  from.flops -= unit.flops;
  from.memoryLeftBytes += unit.memoryBytes;
  from.gpusLeft += unit.gpus;
  count(from.crowds, -1);
  from.claimsLeft += unit.vnodes.length;
  put(to, unit, purse);
  layout[unit.index] = to.index;
}
