// HardSigmoid {alpha = 0.2, beta = 0.5}: y = alpha x + beta, clipped to [0, 1]. Within its range it is the
// one operator that scales and shifts in a single pass over memory; gelu.ts uses it so.

import { numberOf } from "../check.ts";
import { mapKernel, unary } from "../elements/elementwise.ts";
import type { Operator, Value } from "../operator.ts";

export const hardSigmoid: Operator = {
  ...unary("HardSigmoid", (x) => x),
  plan(_inputs, _outputs, attributes) {
    const alpha = numberOf(attributes, "alpha", 0.2);
    const beta = numberOf(attributes, "beta", 0.5);
    return mapKernel((x) => Math.max(0, Math.min(1, alpha * x + beta)));
  },
  vjp({ builder, outputs, gradients, attributes }) {
    const [y] = outputs as [Value];
    const alpha = builder.scalar(numberOf(attributes, "alpha", 0.2));
    const slope = builder.op("Mul", [gradients[0] as Value, alpha]);
    const above = builder.op("Where", [builder.op("Greater", [y, builder.scalar(0)]), slope, builder.scalar(0)]);
    return [builder.op("Where", [builder.op("Less", [y, builder.scalar(1)]), above, builder.scalar(0)])];
  },
};
