// A VNode's forward pass over rows, as plain data: one row for each new token, of whatever request. Everything but attention
// looks at each row alone, so it is graphs for any number of rows, cut where attention looks at the rows before.

import type { Tensor } from "../core/tensor.ts";
import type { GraphModel, ValueInfo } from "./model.ts";

/** A part of each row of a value. */
export interface RowPart {
  readonly of: string;
  /** Elements before it in a row, and elements from row to row. */
  readonly offset: number;
  readonly stride: number;
}

/** Tables [context, half of the elements of a head that are turned]. */
export interface UnitRope {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

export interface UnitAttention {
  /** Of the network, for messages. */
  readonly node: string;
  /** heads headDim elements of each row, and twice kvHeads headDim. Nobody else reads them: they may be changed. */
  readonly query: RowPart;
  readonly key: RowPart;
  readonly value: RowPart;
  /** What comes out, [rows, 1, heads headDim]. */
  readonly result: string;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  /** Scores become cap tanh(score / cap). */
  readonly cap?: number;
  /** Positions that one sees, itself included. */
  readonly window?: number;
  /** Added to the scores of each head's keys, [heads, context]. */
  readonly bias?: Tensor;
  /** Queries and keys are turned by their positions. */
  readonly rope?: UnitRope;
}

/** Composites that stay whole in units, since runtimes have operators for them. */
export const rowComposites: ReadonlySet<string> = new Set(["Linear", "RmsNorm", "Silu", "SwiGlu"]);

/** Which rows go through a graph: all, or only those whose logits or hidden states are asked for. */
export type UnitRows = "all" | "logits" | "hidden";

export interface UnitGraph {
  /** Built for `anyRows`. Its inputs are row values of earlier steps, and weights. */
  readonly graph: GraphModel;
  /** Inputs that never change. */
  readonly weights: readonly string[];
  readonly rows: UnitRows;
}

export type UnitStep = ({ readonly kind: "graph" } & UnitGraph) | ({ readonly kind: "attend" } & UnitAttention);

export interface UnitPlan {
  readonly name: string;
  /** Row values that come from outside: activations and token ids. */
  readonly inputs: readonly ValueInfo[];
  /** In order. */
  readonly steps: readonly UnitStep[];
  /** Row values that leave. */
  readonly outputs: readonly ValueInfo[];
}

/** A row value of a unit: where each row stands in its request, int32 [rows, 1]. */
export const positionsInput = "positions";
/** A row value of a unit: which adapter each row uses, int32 [rows, 1]; 0: none. */
export const adaptersInput = "adapters";
/** The head's output, [rows whose logits are asked for, classes]. */
export const logitsOutput = "logits";
/** What logits are made of, [rows whose hidden states are asked for, width]; absent where nobody can say which value that is. */
export const hiddenOutput = "hidden";
