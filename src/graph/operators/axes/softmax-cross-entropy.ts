// SoftmaxCrossEntropy(logits [.., classes], labels int32 [..]) -> scalar: the mean of -log softmax(logits)[label]
// over the rows whose label is not negative; 0 when there are none.

import { fail } from "../../../core/errors.ts";
import { exp, log } from "../../../core/numbers/math.ts";
import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat } from "../check.ts";
import type { Builder, Kernel, Operator, Value } from "../operator.ts";
import { checkLabels, labelRows, meanLoss, probabilityError, rowShares } from "./labels.ts";

export const softmaxCrossEntropy: Operator = {
  type: "SoftmaxCrossEntropy",
  cheap: true,
  infer(inputs) {
    checkArity("SoftmaxCrossEntropy", inputs, 2);
    checkFloat("SoftmaxCrossEntropy", inputs.slice(0, 1));
    const [logits, labels] = inputs as [Value, Value];
    checkLabels("SoftmaxCrossEntropy", inputs, logits.shape.slice(0, -1), labels);
    return [{ dtype: logits.dtype, shape: [] }];
  },
  plan: (inputs) => crossEntropyKernel((inputs[0] as ValueInfo).shape.at(-1) as number),
  lower(builder, inputs) {
    const [logits, labels] = inputs as [Value, Value];
    const rows = labelRows(builder, labels);
    const picked = builder.op("GatherElements", [logProbabilities(builder, logits), rows.index], { axis: 1 });
    return [meanLoss(builder, picked, rows)];
  },
  vjp({ builder, inputs, gradients }) {
    const [logits, labels] = inputs as [Value, Value];
    const rows = labelRows(builder, labels);
    const error = probabilityError(builder, logProbabilities(builder, logits), rows.index);
    const scaled = builder.op("Mul", [error, rowShares(builder, rows, gradients[0] as Value)]);
    return [builder.op("Reshape", [scaled], { shape: logits.shape }), undefined];
  },
  flops: (inputs) => 5 * elementCount((inputs[0] as ValueInfo).shape),
};

function logProbabilities(builder: Builder, logits: Value): Value {
  const matrix = builder.op("Reshape", [logits], { shape: [-1, logits.shape.at(-1) as number] });
  return builder.op("LogSoftmax", [matrix], { axis: 1 });
}

/** The mean loss of rows of `classes` logits; input 1 holds the labels. */
export function crossEntropyKernel(classes: number): Kernel {
  return (data, results) => {
    const [logits, labels] = data as [Float32Array, Int32Array];
    let [sum, count] = [0, 0];
    for (let row = 0; row < labels.length; row++) {
      const label = Number(labels[row]);
      if (label < 0) continue;
      if (label >= classes) fail("out_of_range", `label ${label} is outside 0..${classes - 1}`);
      let max = Number.NEGATIVE_INFINITY;
      for (let i = 0; i < classes; i++) max = Math.max(max, logits[row * classes + i] as number);
      let total = 0;
      for (let i = 0; i < classes; i++) total += exp((logits[row * classes + i] as number) - max);
      sum += max + log(total) - (logits[row * classes + label] as number);
      count++;
    }
    (results[0] as Float32Array)[0] = sum / Math.max(count, 1);
  };
}
