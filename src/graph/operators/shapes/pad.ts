// Pad {pads: before every axis, then after every axis; value = 0}: surrounds with a constant.

import type { ValueInfo } from "../../model.ts";
import { checkArity, numberOf, numbersOf, refuse, stridesOf, stringOf, walkIndex } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

export const pad: Operator = {
  type: "Pad",
  attributeInputs: ["pads", "value"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Pad", inputs, 1);
    const { dtype, shape } = inputs[0] as Value;
    const pads = numbersOf(attributes, "pads") ?? [];
    if (stringOf(attributes, "mode", "constant") !== "constant") refuse("Pad", inputs, "pads with a constant only");
    if (pads.length !== 2 * shape.length || pads.some((size) => size < 0))
      refuse("Pad", inputs, `needs ${2 * shape.length} pads of 0 or more, got [${pads}]`);
    return [
      {
        dtype,
        shape: shape.map((size, axis) => size + (pads[axis] as number) + (pads[axis + shape.length] as number)),
      },
    ];
  },
  plan(inputs, outputs, attributes) {
    const { shape } = inputs[0] as ValueInfo;
    const strides = stridesOf((outputs[0] as ValueInfo).shape);
    const pads = numbersOf(attributes, "pads") as readonly number[];
    const first = strides.reduce((sum, stride, axis) => sum + stride * (pads[axis] as number), 0);
    const index = walkIndex(shape, strides, first);
    const value = numberOf(attributes, "value", 0);
    return (data, results) => {
      const [x, y] = [data[0] as Float32Array, results[0] as Float32Array];
      y.fill(value);
      for (let i = 0; i < index.length; i++) y[index[i] as number] = x[i] as number;
    };
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const { shape } = inputs[0] as Value;
    const starts = (numbersOf(attributes, "pads") as readonly number[]).slice(0, shape.length);
    const ends = starts.map((start, axis) => start + (shape[axis] as number));
    const axes = shape.map((_, axis) => axis);
    return [builder.op("Slice", [gradients[0] as Value], { starts, ends, axes })];
  },
  flops: () => 0,
};
