// ReduceMean {axes, keepdims}: the mean over axes.

import { elementCount } from "../../../core/tensor.ts";
import type { Value } from "../operator.ts";
import { reduction, restoreAxes } from "./reduce.ts";

export const reduceMean = reduction(
  "ReduceMean",
  [0, (sum, x) => sum + x, (sum, count) => sum / count],
  ({ builder, inputs, outputs, gradients, attributes }) => {
    const [x] = inputs as [Value];
    const share = elementCount((outputs[0] as Value).shape) / elementCount(x.shape);
    const scaled = builder.op("Mul", [gradients[0] as Value, builder.scalar(share)]);
    const dy = restoreAxes(builder, "ReduceMean", x, attributes, scaled);
    return [builder.op("Expand", [dy], { shape: x.shape })];
  },
);
