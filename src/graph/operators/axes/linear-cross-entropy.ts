// LinearCrossEntropy(x [.., width], weight [classes, width], labels int32 [..]) {chunkRows?} -> scalar: the mean
// cross-entropy of x weight^T, for a language model's head. Rows are worked off in chunks, so that the logits
// are never whole in memory; 1/rows is applied to the narrow side, never to the logits.

import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, checkRank, numberOf, refuse } from "../check.ts";
import { type Product, productKernel, productOf } from "../matrices/matrix.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";
import { checkLabels, type LabelRows, labelRows, meanLoss, probabilityError, rowShares } from "./labels.ts";
import { crossEntropyKernel } from "./softmax-cross-entropy.ts";

/** More rows per matrix product gain no speed. */
const chunkRowsMax = 512;
/** Bounds the logits of one chunk: 32 MB. */
const chunkElementsMax = 8 << 20;

function chunksOf(rows: number, classes: number, attributes: Attributes): { start: number; end: number }[] {
  const fitting = Math.max(1, Math.min(chunkRowsMax, Math.floor(chunkElementsMax / classes)));
  const size = numberOf(attributes, "chunkRows", fitting);
  const count = Math.ceil(rows / size);
  return Array.from({ length: count }, (_, i) => ({ start: i * size, end: Math.min(rows, (i + 1) * size) }));
}

export const linearCrossEntropy: Operator = {
  type: "LinearCrossEntropy",
  cheap: false,
  infer(inputs, _attributes) {
    checkArity("LinearCrossEntropy", inputs, 3);
    checkFloat("LinearCrossEntropy", inputs.slice(0, 2));
    checkRank("LinearCrossEntropy", inputs, 1, 2);
    const [x, weight, labels] = inputs as [Value, Value, Value];
    if (x.shape.at(-1) !== weight.shape[1])
      refuse("LinearCrossEntropy", inputs, `the last axis of the input must have the weight's size ${weight.shape[1]}`);
    checkLabels("LinearCrossEntropy", inputs, x.shape.slice(0, -1), labels);
    return [{ dtype: x.dtype, shape: [] }];
  },
  plan(inputs) {
    const [x, weight] = inputs as [ValueInfo, ValueInfo];
    const [classes, width] = weight.shape as [number, number];
    const rows = elementCount(x.shape) / width;
    const form = { transA: false, transB: true, alpha: 1 };
    const multiply = productKernel(productOf([rows, width], weight.shape, form)?.product as Product);
    const loss = crossEntropyKernel(classes);
    return (data, results) => {
      const logits = new Float64Array(rows * classes);
      multiply(data, [logits]);
      loss([logits, data[2] as Int32Array], results);
    };
  },
  lower(builder, inputs, attributes) {
    const head = headOf(builder, inputs, attributes);
    const picked = head.chunks.map((chunk) => {
      const { index } = labelsOf(builder, head, chunk);
      return builder.op("GatherElements", [logProbabilities(builder, head, chunk), index], { axis: 1 });
    });
    return [meanLoss(builder, joined(builder, picked), head.labels)];
  },
  vjp({ builder, inputs, attributes, gradients, wanted }) {
    const [x, weight] = inputs as [Value, Value];
    const head = headOf(builder, inputs, attributes);
    const shares = rowShares(builder, head.labels, gradients[0] as Value);
    const dx: Value[] = [];
    let turned: Value | undefined;
    for (const chunk of head.chunks) {
      const { index } = labelsOf(builder, head, chunk);
      const error = probabilityError(builder, logProbabilities(builder, head, chunk), index);
      const share = rowsOf(builder, shares, chunk);
      if (wanted[0]) dx.push(builder.op("Mul", [builder.op("Gemm", [error, weight]), share]));
      if (!wanted[1]) continue;
      const scaled = builder.op("Mul", [rowsOf(builder, head.x, chunk), share]);
      // [width, classes], turned once at the end: a product with that many rows would run a third slower.
      const part = builder.op("Gemm", [builder.op("Transpose", [scaled], { perm: [1, 0] }), error]);
      turned = turned ? builder.op("Add", [turned, part]) : part;
    }
    const whole = wanted[0] ? builder.op("Reshape", [joined(builder, dx)], { shape: x.shape }) : undefined;
    const dweight = turned && builder.op("Transpose", [turned], { perm: [1, 0] });
    return [whole, dweight, undefined];
  },
  flops: (inputs) =>
    (2 * elementCount((inputs[0] as ValueInfo).shape) + 5) * ((inputs[1] as ValueInfo).shape[0] as number),
};

interface Head {
  readonly x: Value;
  readonly weight: Value;
  readonly labels: LabelRows;
  readonly chunks: readonly { start: number; end: number }[];
}

type Chunk = Head["chunks"][number];

function headOf(builder: Builder, inputs: readonly Value[], attributes: Attributes): Head {
  const [x, weight, labels] = inputs as [Value, Value, Value];
  const [classes, width] = weight.shape as [number, number];
  const rows = builder.op("Reshape", [x], { shape: [-1, width] });
  const chunks = chunksOf(rows.shape[0] as number, classes, attributes);
  return { x: rows, weight, labels: labelRows(builder, labels), chunks };
}

function rowsOf(builder: Builder, value: Value, { start, end }: Chunk): Value {
  if (start === 0 && end === value.shape[0]) return value;
  return builder.op("Slice", [value], { starts: [start], ends: [end], axes: [0] });
}

function labelsOf(builder: Builder, head: Head, chunk: Chunk): { index: Value } {
  return { index: rowsOf(builder, head.labels.index, chunk) };
}

function logProbabilities(builder: Builder, head: Head, chunk: Chunk): Value {
  const logits = builder.op("Gemm", [rowsOf(builder, head.x, chunk), head.weight], { transB: 1 });
  return builder.op("LogSoftmax", [logits], { axis: 1 });
}

function joined(builder: Builder, parts: readonly Value[]): Value {
  return parts.length === 1 ? (parts[0] as Value) : builder.op("Concat", parts, { axis: 0 });
}
