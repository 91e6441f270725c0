// Graphs for any number of rows on engines that know fixed shapes only: a program for each of a few row counts, kept while
// they are used. Rows that fill up hold anything; no row depends on another.

import type { GraphModel } from "../../graph/model.ts";
import { bindRows } from "../../graph/rows.ts";
import type { Engine, Program, Tensors } from "../engine.ts";

export interface RowProgram {
  /** How many rows it computes where so many are wanted: at least as many. Feeds and outputs have room for them. */
  padded(rows: number): number;
  /** Whether it still reads the weights that it was loaded with. */
  readonly keepsWeights: boolean;
  /** `feeds` and `into` have as many rows as `padded` says. */
  run(feeds: Tensors, into: Tensors, rows: number): Promise<void>;
  release(): Promise<void>;
}

/** Loaded graphs of one piece. Answers need few: one row, some rows, a chunk. */
const programsMax = 6;

/** 1, 2, 4, 8, 16, .. */
export function bucketOf(rows: number): number {
  let bucket = 1;
  while (bucket < rows) bucket *= 2;
  return bucket;
}

export function rowProgramOf(engine: Engine, graph: GraphModel, weights: Tensors): RowProgram {
  /** Least recently used first. */
  const programs = new Map<number, Program>();
  return {
    padded: bucketOf,
    keepsWeights: Object.keys(weights).length > 0,
    async run(feeds, into, rows) {
      const program = programs.get(rows) ?? (await engine.load(bindRows(graph, rows)));
      programs.delete(rows);
      programs.set(rows, program);
      for (const [oldest, old] of programs) {
        if (programs.size <= programsMax) break;
        programs.delete(oldest);
        await old.release();
      }
      await program.run({ ...weights, ...feeds }, into);
    },
    async release() {
      for (const program of programs.values()) await program.release();
      programs.clear();
    },
  };
}
