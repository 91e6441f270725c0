// What a node type's `build` gets: its inputs, weights and chances as graph values, and the few pieces that
// differ between training, evaluation and generation.

import type { Shape } from "../../core/tensor.ts";
import type { Builder, Value } from "../../graph/operators/operator.ts";
import type { Alibi, Rope } from "../graphs/positions.ts";
import type { Signature, Site } from "./node-type.ts";

export type { Value } from "../../graph/operators/operator.ts";

export interface AttentionLayout {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly causal: boolean;
  /** Absent: no rotary positions. */
  readonly rope: Rope | undefined;
  readonly alibi: Alibi | undefined;
  /** Of queries and keys, before they are rotated: of all heads at once ([.., heads headDim]), or of each. */
  readonly norm:
    | { readonly flat: boolean; readonly query: (value: Value) => Value; readonly key: (value: Value) => Value }
    | undefined;
  /** Of the scores; absent: 1 / sqrt(headDim). */
  readonly scale: number | undefined;
  /** Scores become cap tanh(score / cap). */
  readonly cap: number | undefined;
  /** Positions that one sees, itself included. */
  readonly window: number | undefined;
}

export interface BuildSite extends Site {
  readonly graph: Builder;
  /** Leading axis of every activation. */
  readonly batch: number;
  readonly outputs: readonly Signature[];
  input(slot: number): Value;
  parameter(name: string): Value;
  /** The matrix that another node publishes. */
  tied(): Value;
  /** Undefined outside training, and where the rate is 0. */
  chance(name: string): Value | undefined;
  labels(): Value;
  /** The shape of one output with the batch in front; generation changes the sequence axis. */
  outputShape(slot: number): Shape;
  /** Rows of a learned position table for the positions at hand. */
  positionRows(table: Value): Value;
  /** Which adapter each row uses, int32 [rows, 1]; 0: none. */
  adapterRows(): Value;
  /** Rotates the last axis by the positions of the axis before it. */
  rotate(value: Value, rope: Rope): Value;
  /** `qkv` is [batch, seq, (heads + 2 kvHeads) headDim]; gives [batch, seq, heads headDim]. */
  attend(qkv: Value, layout: AttentionLayout): Value;
  /** A linear layer whose logits are judged by cross-entropy without being kept whole. */
  linearCrossEntropy(x: Value, weight: Value, bias: Value | undefined, transposed: boolean): Value;
  crossEntropy(logits: Value): Value;
  crossEntropyOfProbabilities(probabilities: Value): Value;
  meanSquare(prediction: Value, target: Value): Value;
}
