// Transpose {perm: reversed when absent}: reorders axes.

import { type Shape, sameShape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, numbersOf, refuse, stridesOf, walkIndex } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { gatherKernel } from "./copy.ts";

function permOf(shape: Shape, attributes: Attributes): readonly number[] {
  return numbersOf(attributes, "perm") ?? shape.map((_, axis) => shape.length - 1 - axis);
}

export const transpose: Operator = {
  type: "Transpose",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Transpose", inputs, 1);
    const [x] = inputs as [Value];
    const perm = permOf(x.shape, attributes);
    const sorted = [...perm].sort((a, b) => a - b);
    if (
      !sameShape(
        sorted,
        x.shape.map((_, axis) => axis),
      )
    )
      refuse("Transpose", inputs, `perm [${perm}] must name every axis once`);
    return [{ dtype: x.dtype, shape: perm.map((axis) => x.shape[axis] as number) }];
  },
  plan(inputs, outputs, attributes) {
    const [x] = inputs as [ValueInfo];
    const strides = stridesOf(x.shape);
    const steps = permOf(x.shape, attributes).map((axis) => strides[axis] as number);
    return gatherKernel(walkIndex((outputs[0] as ValueInfo).shape, steps));
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const perm = permOf((inputs[0] as Value).shape, attributes);
    return [builder.op("Transpose", [gradients[0] as Value], { perm: perm.map((_, axis) => perm.indexOf(axis)) })];
  },
  flops: () => 0,
};
