// Reshape {shape; one size may be -1, 0 keeps the input's}: the same data under another shape.

import { elementCount, type Shape } from "../../../core/tensor.ts";
import { checkArity, numbersOf, refuse } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { sameData } from "./copy.ts";

/** Resolves -1 and 0 in a target shape. */
export function reshapedTo(inputs: readonly Value[], attributes: Attributes): Shape {
  const [x] = inputs as [Value];
  const target = numbersOf(attributes, "shape") ?? refuse("Reshape", inputs, "needs a shape that is known beforehand");
  const kept = target.map((size, axis) => (size === 0 && attributes["allowzero"] !== 1 ? (x.shape[axis] ?? 0) : size));
  const known = kept.reduce((product, size) => (size === -1 ? product : product * size), 1);
  const shape = kept.map((size) => (size === -1 ? elementCount(x.shape) / known : size));
  if (elementCount(shape) !== elementCount(x.shape) || shape.some((size) => !Number.isInteger(size) || size < 0))
    refuse("Reshape", inputs, `cannot become [${target}]: ${elementCount(x.shape)} elements do not fill it`);
  return shape;
}

export const reshape: Operator = {
  type: "Reshape",
  attributeInputs: ["shape"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Reshape", inputs, 1);
    return [{ dtype: (inputs[0] as Value).dtype, shape: reshapedTo(inputs, attributes) }];
  },
  plan: () => sameData,
  vjp: ({ builder, inputs, gradients }) => [
    builder.op("Reshape", [gradients[0] as Value], { shape: (inputs[0] as Value).shape }),
  ],
  flops: () => 0,
};
