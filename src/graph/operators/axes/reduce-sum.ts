// ReduceSum {axes, keepdims}: the sum over axes.

import type { Value } from "../operator.ts";
import { reduction, restoreAxes } from "./reduce.ts";

export const reduceSum = reduction(
  "ReduceSum",
  [0, (sum, x) => sum + x, (sum) => sum],
  ({ builder, inputs, gradients, attributes }) => {
    const [x] = inputs as [Value];
    const dy = restoreAxes(builder, "ReduceSum", x, attributes, gradients[0] as Value);
    return [builder.op("Expand", [dy], { shape: x.shape })];
  },
);
