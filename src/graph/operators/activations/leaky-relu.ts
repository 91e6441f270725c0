// LeakyRelu {alpha = 0.01}: y = x where x >= 0, else alpha x.

import { numberOf } from "../check.ts";
import { mapKernel, unary } from "../elements/elementwise.ts";
import type { Operator, Value } from "../operator.ts";

export const leakyRelu: Operator = {
  ...unary("LeakyRelu", (x) => x),
  plan(_inputs, _outputs, attributes) {
    const alpha = numberOf(attributes, "alpha", 0.01);
    return mapKernel((x) => (x >= 0 ? x : alpha * x));
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const [x] = inputs as [Value];
    const dy = gradients[0] as Value;
    const scaled = builder.op("Mul", [dy, builder.scalar(numberOf(attributes, "alpha", 0.01))]);
    return [builder.op("Where", [builder.op("Less", [x, builder.scalar(0)]), scaled, dy])];
  },
};
