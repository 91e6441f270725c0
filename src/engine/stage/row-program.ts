// Graphs for any number of rows on engines that know fixed shapes only: a program for each of a few row counts, kept while
// they are used. Rows that fill up hold anything; no row depends on another.

import type { Tensor } from "../../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../../graph/model.ts";
import { bindRows } from "../../graph/rows.ts";
import type { Engine, Program, Tensors } from "../engine.ts";

export interface RowProgram {
  /** How many rows it computes where so many are wanted: at least as many. Feeds and outputs have room for them. */
  padded(rows: number): number;
  /** Whether it still reads the weights that it was loaded with. */
  readonly keepsWeights: boolean;
  /**
   * In the order of the graph's inputs that are no weights, and of its outputs; they have as many rows as `padded` says. Done at once
   * where there is nothing to wait for.
   */
  run(feeds: readonly Tensor[], into: readonly Tensor[], rows: number): Promise<void> | undefined;
  release(): Promise<void>;
}

/** Inputs of a graph that are no weights. */
export function inputsBeside(graph: GraphModel, weights: Readonly<Record<string, unknown>>): readonly ValueInfo[] {
  return graph.inputs.filter(({ name }) => !(name in weights));
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
  const inputs = inputsBeside(graph, weights);
  const byName = (infos: readonly ValueInfo[], tensors: readonly Tensor[]) =>
    Object.fromEntries(infos.map(({ name }, i) => [name, tensors[i] as Tensor]));
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
      await program.run({ ...weights, ...byName(inputs, feeds) }, byName(graph.outputs, into));
    },
    async release() {
      for (const program of programs.values()) await program.release();
      programs.clear();
    },
  };
}
