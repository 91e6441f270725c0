// In which world each mutant showed itself the last time. That world is tried first, so that a test of all of them costs a
// world each and not the search; where a draw has changed since, the search goes on as if nothing were known.

import { readFileSync, writeFileSync } from "node:fs";
import { mutants } from "../mutants.ts";
import type { SeedPool } from "../pool.ts";
import type { SimulationReport } from "../report.ts";

const file = new URL("shown.json", import.meta.url);

export type ShownSeeds = Readonly<Record<string, number>>;

export function readShown(): ShownSeeds {
  return JSON.parse(readFileSync(file, "utf8"));
}

export function writeShown(shown: ShownSeeds): void {
  const inOrder = Object.keys(mutants).flatMap((name) => (shown[name] === undefined ? [] : [[name, shown[name]]]));
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(inOrder), undefined, 2)}\n`);
}

/** Worlds with the mutant, one after another, until one of them fails. */
export function hunt(pool: SeedPool, name: string, shown: ShownSeeds): Promise<SimulationReport> {
  const { seedsMax = 100 } = mutants[name] as (typeof mutants)[string];
  const inOrder = Array.from({ length: seedsMax }, (_, index) => index + 1);
  const first = shown[name];
  const seeds = first === undefined ? inOrder : [first, ...inOrder.filter((seed) => seed !== first)];
  return pool.run({ seeds, mutant: name, failuresMax: 1 });
}
