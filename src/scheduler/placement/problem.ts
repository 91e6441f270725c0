// What one search for a layout has to go by: the units, the PNodes that may take them, and what stays where it is.

import type { Bin, Purse } from "./bins.ts";
import type { Fleet } from "./fleet.ts";
import type { Policy } from "./types.ts";
import type { Unit, UnitEdge } from "./units.ts";

export interface Problem {
  /** To be placed. */
  readonly units: readonly Unit[];
  readonly all: readonly Unit[];
  readonly edges: readonly UnitEdge[];
  readonly bins: readonly Bin[];
  readonly purse: Purse;
  /** Units that stay, by index, with their PNode. */
  readonly settled: ReadonlyMap<number, string>;
  readonly fleet: Fleet;
  readonly policy: Policy;
}
