// Uses more PNodes than speed alone would: some workloads are to survive the loss of any one machine cheaply, or to
// show that they do. Cuts the longest runs of neighbours first, so that the pipeline stays a pipeline.

import type { Layout } from "./balance.ts";
import { type Bin, fits } from "./bins.ts";
import { hasRoom } from "./crowds.ts";
import { refilled } from "./layouts.ts";
import type { Problem } from "./problem.ts";
import type { Unit } from "./units.ts";

/** Changes `layout` until it uses `wanted` bins, or as many as there are. */
export function spreadOut(problem: Problem, layout: Layout, wanted: number): void {
  for (;;) {
    const byBin = Map.groupBy(
      problem.units.filter((unit) => layout[unit.index] !== -1),
      (unit) => layout[unit.index] as number,
    );
    const settled = new Set(problem.settled.values());
    const used = new Set([...[...byBin.keys()].map((bin) => problem.bins[bin]?.node.id as string), ...settled]);
    if (used.size >= wanted) return;
    const filled = refilled(problem, problem.bins, layout);
    const open = filled.filter((bin) => !used.has(bin.node.id));
    const cut = cutFor(problem, open, [...byBin.values()]);
    if (!cut) return;
    for (const unit of cut.moved) layout[unit.index] = cut.to.index;
  }
}

/** Half of the longest run, or less of it where nobody else may have or hold as much. */
function cutFor(
  problem: Problem,
  open: readonly Bin[],
  runs: readonly Unit[][],
): { readonly moved: readonly Unit[]; readonly to: Bin } | undefined {
  for (const run of runs.toSorted((a, b) => b.length - a.length))
    for (let size = Math.floor(run.length / 2); size > 0; size = Math.floor(size / 2)) {
      const moved = run.slice(run.length - size);
      const to = open.find((bin) => holds(problem, bin, moved));
      if (to) return { moved, to };
    }
  return undefined;
}

function holds(problem: Problem, bin: Bin, units: readonly Unit[]): boolean {
  const memoryBytes = units.reduce((sum, unit) => sum + unit.memoryBytes, 0);
  if (!hasRoom(bin.crowds, units.length)) return false;
  return memoryBytes <= bin.memoryLeftBytes && units.every((unit) => fits(bin, unit, problem.purse));
}
