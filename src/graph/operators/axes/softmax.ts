// Softmax {axis = -1}: e^x / sum e^x along one axis; dx = y (dy - sum(dy y)).

import { exp } from "../../../core/numbers/math.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, resolveAxis, splitAt } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

export const softmax: Operator = {
  type: "Softmax",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Softmax", inputs, 1);
    checkFloat("Softmax", inputs);
    const [x] = inputs as [Value];
    resolveAxis("Softmax", inputs, numberOf(attributes, "axis", -1), x.shape.length);
    return [{ dtype: x.dtype, shape: x.shape }];
  },
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
        for (let i = 0; i < size; i++) {
          const power = exp((x[start + i * inner] as number) - max);
          sum += power;
          y[start + i * inner] = power;
        }
        for (let i = 0; i < size; i++) y[start + i * inner] = (y[start + i * inner] as number) / sum;
      }
    };
  },
  vjp({ builder, inputs, outputs, gradients, attributes }) {
    const [y] = outputs as [Value];
    const dy = gradients[0] as Value;
    const axis = resolveAxis("Softmax", inputs, numberOf(attributes, "axis", -1), y.shape.length);
    const sum = builder.op("ReduceSum", [builder.op("Mul", [dy, y])], { axes: [axis], keepdims: 1 });
    return [builder.op("Mul", [y, builder.op("Sub", [dy, sum])])];
  },
  flops: (inputs) => 5 * splitAt(inputs[0]?.shape ?? [], 0).size * splitAt(inputs[0]?.shape ?? [], 0).inner,
};
