// LogSoftmax {axis = -1}: x - log(sum e^x) along one axis; dx = dy - e^y sum(dy).

import { exp, log } from "../../../core/numbers/math.ts";
import type { ValueInfo } from "../../model.ts";
import { numberOf, resolveAxis, splitAt } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { softmax } from "./softmax.ts";

export const logSoftmax: Operator = {
  type: "LogSoftmax",
  cheap: true,
  infer: softmax.infer,
  plan(inputs, _outputs, attributes) {
    const [{ shape }] = inputs as [ValueInfo];
    const axis = numberOf(attributes, "axis", -1);
    const { outer, size, inner } = splitAt(shape, axis < 0 ? axis + shape.length : axis);
    return (data, results) => {
      const [x, y] = [data[0] as Float32Array, results[0] as Float32Array];
      for (let row = 0; row < outer * inner; row++) {
        const start = Math.floor(row / inner) * size * inner + (row % inner);
        let max = Number.NEGATIVE_INFINITY;
        for (let i = 0; i < size; i++) max = Math.max(max, x[start + i * inner] as number);
        let sum = 0;
        for (let i = 0; i < size; i++) sum += exp((x[start + i * inner] as number) - max);
        const shift = max + log(sum);
        for (let i = 0; i < size; i++) y[start + i * inner] = (x[start + i * inner] as number) - shift;
      }
    };
  },
  vjp({ builder, inputs, outputs, gradients, attributes }) {
    const [y] = outputs as [Value];
    const dy = gradients[0] as Value;
    const axis = resolveAxis("LogSoftmax", inputs, numberOf(attributes, "axis", -1), y.shape.length);
    const sum = builder.op("ReduceSum", [dy], { axes: [axis], keepdims: 1 });
    return [builder.op("Sub", [dy, builder.op("Mul", [builder.op("Exp", [y]), sum])])];
  },
  flops: softmax.flops,
};
