// Squeeze {axes: all of size 1 when absent}: drops axes of size 1. Becomes a Reshape.

import type { Shape } from "../../../core/tensor.ts";
import { checkArity, numbersOf, refuse, resolveAxis } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { sameData } from "./copy.ts";

function squeezedShape(inputs: readonly Value[], attributes: Attributes): Shape {
  const [x] = inputs as [Value];
  const given = numbersOf(attributes, "axes");
  if (given === undefined) return x.shape.filter((size) => size !== 1);
  const axes = given.map((axis) => resolveAxis("Squeeze", inputs, axis, x.shape.length));
  for (const axis of axes) if (x.shape[axis] !== 1) refuse("Squeeze", inputs, `axis ${axis} must have size 1`);
  return x.shape.filter((_, axis) => !axes.includes(axis));
}

export const squeeze: Operator = {
  type: "Squeeze",
  attributeInputs: ["axes"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Squeeze", inputs, 1);
    return [{ dtype: (inputs[0] as Value).dtype, shape: squeezedShape(inputs, attributes) }];
  },
  plan: () => sameData,
  lower: (builder, inputs, attributes) => [
    builder.op("Reshape", [inputs[0] as Value], { shape: squeezedShape(inputs, attributes) }),
  ],
  vjp: ({ builder, inputs, gradients }) => [
    builder.op("Reshape", [gradients[0] as Value], { shape: (inputs[0] as Value).shape }),
  ],
  flops: () => 0,
};
