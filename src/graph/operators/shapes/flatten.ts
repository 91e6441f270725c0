// Flatten {axis = 1}: a matrix of the axes before and from `axis`. Becomes a Reshape.

import type { Shape } from "../../../core/tensor.ts";
import { elementCount } from "../../../core/tensor.ts";
import { checkArity, numberOf, refuse } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { sameData } from "./copy.ts";

function flatShape(inputs: readonly Value[], attributes: Attributes): Shape {
  const [x] = inputs as [Value];
  const given = numberOf(attributes, "axis", 1);
  const axis = given < 0 ? given + x.shape.length : given;
  if (axis < 0 || axis > x.shape.length) refuse("Flatten", inputs, `axis ${given} does not exist`);
  return [elementCount(x.shape.slice(0, axis)), elementCount(x.shape.slice(axis))];
}

export const flatten: Operator = {
  type: "Flatten",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Flatten", inputs, 1);
    return [{ dtype: (inputs[0] as Value).dtype, shape: flatShape(inputs, attributes) }];
  },
  plan: () => sameData,
  lower: (builder, inputs, attributes) => [
    builder.op("Reshape", [inputs[0] as Value], { shape: flatShape(inputs, attributes) }),
  ],
  vjp: ({ builder, inputs, gradients }) => [
    builder.op("Reshape", [gradients[0] as Value], { shape: (inputs[0] as Value).shape }),
  ],
  flops: () => 0,
};
