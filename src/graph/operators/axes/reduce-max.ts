// ReduceMax {axes, keepdims}: the maximum over axes. Equal maxima share the gradient evenly.

import type { Value } from "../operator.ts";
import { keptShape, reduction, restoreAxes } from "./reduce.ts";

export const reduceMax = reduction(
  "ReduceMax",
  [Number.NEGATIVE_INFINITY, (max, x) => Math.max(x, max), (max) => max],
  ({ builder, inputs, outputs, gradients, attributes }) => {
    const [x] = inputs as [Value];
    const max = restoreAxes(builder, "ReduceMax", x, attributes, outputs[0] as Value);
    const dy = restoreAxes(builder, "ReduceMax", x, attributes, gradients[0] as Value);
    const hit = builder.op("Cast", [builder.op("Equal", [x, max])], { to: x.dtype === "float64" ? 11 : 1 });
    const kept = keptShape("ReduceMax", x, attributes);
    const axes = kept.flatMap((size, axis) => (size === 1 && x.shape[axis] !== 1 ? [axis] : []));
    const ties = axes.length === 0 ? hit : builder.op("ReduceSum", [hit], { axes, keepdims: 1 });
    return [builder.op("Mul", [hit, builder.op("Div", [dy, ties])])];
  },
);
