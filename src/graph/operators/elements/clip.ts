// Clip {min?, max?}: y = x held between min and max; the gradient passes in between.

import { numberOf } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { mapKernel, unary } from "./elementwise.ts";

export const clip: Operator = {
  ...unary("Clip", (x) => x),
  attributeInputs: ["min", "max"],
  plan(_inputs, _outputs, attributes) {
    const min = numberOf(attributes, "min", Number.NEGATIVE_INFINITY);
    const max = numberOf(attributes, "max", Number.POSITIVE_INFINITY);
    return mapKernel((x) => Math.min(max, Math.max(min, x)));
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const [x] = inputs as [Value];
    let dx = gradients[0] as Value;
    const zero = builder.scalar(0);
    if (typeof attributes["min"] === "number")
      dx = builder.op("Where", [builder.op("Less", [x, builder.scalar(attributes["min"])]), zero, dx]);
    if (typeof attributes["max"] === "number")
      dx = builder.op("Where", [builder.op("Greater", [x, builder.scalar(attributes["max"])]), zero, dx]);
    return [dx];
  },
};
