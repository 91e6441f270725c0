// Losses as graphs, and what an evaluation counts beside them: how many labels there are and how many of the
// largest scores hit theirs.

import { elementCount, float32 } from "../../core/tensor.ts";
import { labelRows, meanLoss } from "../../graph/operators/axes/labels.ts";
import type { Builder, Value } from "../../graph/operators/operator.ts";

/** Scalars of one cost node in an evaluation. */
export interface Counts {
  readonly correct: Value;
  readonly counted: Value;
}

/** Smaller probabilities would make the logarithm overflow the gradient. */
const probabilityMin = 1e-12;

export function meanSquare(graph: Builder, prediction: Value, target: Value): Value {
  const error = graph.op("Sub", [prediction, target]);
  const axes = prediction.shape.map((_, axis) => axis);
  return graph.op("ReduceMean", [graph.op("Mul", [error, error])], { axes, keepdims: 0 });
}

export function crossEntropyOfProbabilities(graph: Builder, probabilities: Value, labels: Value): Value {
  const rows = labelRows(graph, labels);
  const matrix = graph.op("Reshape", [probabilities], { shape: [-1, probabilities.shape.at(-1)!] });
  const picked = graph.op("GatherElements", [matrix, rows.index], { axis: 1 });
  return meanLoss(graph, graph.op("Log", [graph.op("Clip", [picked], { min: probabilityMin })]), rows);
}

/** Counts over rows of scores: [rows, classes] against labels of as many elements. */
export function countHits(graph: Builder, scores: Value, labels: Value): Counts {
  const classes = scores.shape.at(-1)!;
  const matrix = graph.op("Reshape", [scores], { shape: [elementCount(scores.shape) / classes, classes] });
  const { index, counts } = labelRows(graph, labels);
  return {
    correct: total(graph, graph.op("Mul", [hits(graph, matrix, index), counts])),
    counted: total(graph, counts),
  };
}

/** [rows, 1]: 1 where the label's score is the largest. */
function hits(graph: Builder, matrix: Value, index: Value): Value {
  const picked = graph.op("GatherElements", [matrix, index], { axis: 1 });
  const largest = graph.op("ReduceMax", [matrix], { axes: [1], keepdims: 1 });
  return graph.op("Where", [graph.op("Less", [picked, largest]), graph.scalar(0), graph.scalar(1)]);
}

/** Rows whose scores are held at once: the same bound as in training, 32 MB. */
const chunkElementsMax = 8 << 20;
const chunkRowsMax = 512;

/**
 * Loss and counts of scores x weight^T that are never whole in memory: each chunk of rows is judged and counted
 * before the next one is made. `weight` is [classes, width].
 */
export function evaluateHead(graph: Builder, x: Value, weight: Value, labels: Value): { loss: Value; counts: Counts } {
  const [classes, width] = weight.shape as [number, number];
  const matrix = graph.op("Reshape", [x], { shape: [-1, width] });
  const rows = labelRows(graph, labels);
  const count = matrix.shape[0]!;
  const size = Math.max(1, Math.min(chunkRowsMax, Math.floor(chunkElementsMax / classes)));
  const found: Value[] = [];
  const logs: Value[] = [];
  for (let start = 0; start < count; start += size) {
    const attributes = { starts: [start], ends: [Math.min(count, start + size)], axes: [0] };
    const part = (value: Value) => (count <= size ? value : graph.op("Slice", [value], attributes));
    const scores = graph.op("Gemm", [part(matrix), weight], { transB: 1 });
    const index = part(rows.index);
    found.push(hits(graph, scores, index));
    logs.push(graph.op("GatherElements", [graph.op("LogSoftmax", [scores], { axis: 1 }), index], { axis: 1 }));
  }
  const joined = (parts: readonly Value[]) => graph.op("Concat", parts, { axis: 0 });
  return {
    loss: meanLoss(graph, joined(logs), rows),
    counts: {
      correct: total(graph, graph.op("Mul", [joined(found), rows.counts])),
      counted: total(graph, rows.counts),
    },
  };
}

function total(graph: Builder, column: Value): Value {
  return graph.op("ReduceSum", [column], { axes: [0, 1], keepdims: 0 });
}

/**
 * The weight of a head as [classes, width], and x to match. A bias becomes one more column, met by a column of
 * ones, so that the head with cross-entropy in chunks serves every linear layer.
 */
export function headOperands(
  graph: Builder,
  x: Value,
  weight: Value,
  bias: Value | undefined,
  transposed: boolean,
): { x: Value; weight: Value } {
  const matrix = transposed ? weight : graph.op("Transpose", [weight], { perm: [1, 0] });
  if (bias === undefined) return { x, weight: matrix };
  const column = graph.op("Reshape", [bias], { shape: [bias.shape[0]!, 1] });
  const rows = x.shape.slice(0, -1);
  const ones = graph.constant(float32([...rows, 1], new Float32Array(elementCount(rows)).fill(1)));
  return {
    x: graph.op("Concat", [x, ones], { axis: x.shape.length - 1 }),
    weight: graph.op("Concat", [matrix, column], { axis: 1 }),
  };
}
