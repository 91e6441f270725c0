// Unsqueeze {axes}: adds axes of size 1 at these places of the result. Becomes a Reshape.

import type { Shape } from "../../../core/tensor.ts";
import { checkArity, numbersOf, refuse, resolveAxis } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { sameData } from "./copy.ts";

function unsqueezedShape(inputs: readonly Value[], attributes: Attributes): Shape {
  const [x] = inputs as [Value];
  const given = numbersOf(attributes, "axes") ?? refuse("Unsqueeze", inputs, "needs axes");
  const rank = x.shape.length + given.length;
  const axes = given.map((axis) => resolveAxis("Unsqueeze", inputs, axis, rank));
  if (new Set(axes).size !== axes.length) refuse("Unsqueeze", inputs, `axes [${given}] name one place twice`);
  const rest = [...x.shape];
  return Array.from({ length: rank }, (_, axis) => (axes.includes(axis) ? 1 : (rest.shift() as number)));
}

export const unsqueeze: Operator = {
  type: "Unsqueeze",
  attributeInputs: ["axes"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Unsqueeze", inputs, 1);
    return [{ dtype: (inputs[0] as Value).dtype, shape: unsqueezedShape(inputs, attributes) }];
  },
  plan: () => sameData,
  lower: (builder, inputs, attributes) => [
    builder.op("Reshape", [inputs[0] as Value], { shape: unsqueezedShape(inputs, attributes) }),
  ],
  vjp: ({ builder, inputs, gradients }) => [
    builder.op("Reshape", [gradients[0] as Value], { shape: (inputs[0] as Value).shape }),
  ],
  flops: () => 0,
};
