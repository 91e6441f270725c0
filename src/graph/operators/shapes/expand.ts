// Expand {shape}: repeats along axes of size 1, by the rules of broadcasting.

import type { ValueInfo } from "../../model.ts";
import { broadcastIndex, broadcastShape, checkArity, numbersOf, refuse } from "../check.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Operator, Value } from "../operator.ts";
import { gatherKernel } from "./copy.ts";

export const expand: Operator = {
  type: "Expand",
  attributeInputs: ["shape"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Expand", inputs, 1);
    const [x] = inputs as [Value];
    const target = numbersOf(attributes, "shape") ?? refuse("Expand", inputs, "needs a shape that is known beforehand");
    const shape = broadcastShape(x.shape, target);
    if (shape === undefined) refuse("Expand", inputs, `does not broadcast to [${target}]`);
    return [{ dtype: x.dtype, shape }];
  },
  plan: (inputs, outputs) =>
    gatherKernel(broadcastIndex((inputs[0] as ValueInfo).shape, (outputs[0] as ValueInfo).shape)),
  vjp: ({ builder, inputs, gradients }) => [reduceTo(builder, gradients[0] as Value, (inputs[0] as Value).shape)],
  flops: () => 0,
};
