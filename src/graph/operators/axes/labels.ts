// What the cross-entropies share: labels as int32, where a negative label means that its row does not count.

import { elementCount } from "../../../core/tensor.ts";
import { refuse } from "../check.ts";
import type { Builder, Value } from "../operator.ts";

/** Labels must be whole numbers, one for each row of the scores. */
export function checkLabels(type: string, inputs: readonly Value[], rows: readonly number[], labels: Value): void {
  if (labels.dtype !== "int32" && labels.dtype !== "int64") refuse(type, inputs, "labels must be int32");
  if (String(labels.shape) !== String(rows)) refuse(type, inputs, `labels must have the shape [${rows}]`);
}

export interface LabelRows {
  /** [rows, 1], 0 where the row does not count. */
  readonly index: Value;
  /** [rows, 1], 1 where the row counts, else 0. */
  readonly counts: Value;
  /** [1, 1], how many rows count, at least 1. */
  readonly total: Value;
}

export function labelRows(builder: Builder, labels: Value): LabelRows {
  const column = builder.op("Reshape", [labels], { shape: [elementCount(labels.shape), 1] });
  const zero = builder.constant({
    dtype: labels.dtype,
    shape: [],
    data: labels.dtype === "int64" ? new BigInt64Array(1) : new Int32Array(1),
  });
  const absent = builder.op("Less", [column, zero]);
  const counts = builder.op("Where", [absent, builder.scalar(0), builder.scalar(1)]);
  const sum = builder.op("ReduceSum", [counts], { axes: [0], keepdims: 1 });
  const total = builder.op("Clip", [sum], { min: 1 });
  return { index: builder.op("Where", [absent, zero, column]), counts, total };
}

/** -sum(counts * picked) / total as a scalar, from the log-probability of each row's label. */
export function meanLoss(builder: Builder, picked: Value, { counts, total }: LabelRows): Value {
  const sum = builder.op("ReduceSum", [builder.op("Mul", [picked, counts])], { axes: [0], keepdims: 1 });
  return builder.op("Reshape", [builder.op("Neg", [builder.op("Div", [sum, total])])], { shape: [] });
}

/** How much each row's probabilities weigh in the gradient: [rows, 1]. */
export function rowShares(builder: Builder, { counts, total }: LabelRows, dloss: Value): Value {
  const share = builder.op("Div", [builder.op("Reshape", [dloss], { shape: [1, 1] }), total]);
  return builder.op("Mul", [counts, share]);
}

/** softmax - one-hot, from log-probabilities. */
export function probabilityError(builder: Builder, logs: Value, index: Value): Value {
  const minusOne = builder.op("Expand", [builder.scalar(-1)], { shape: index.shape });
  return builder.op("ScatterElements", [builder.op("Exp", [logs]), index, minusOne], { axis: 1, reduction: "add" });
}
