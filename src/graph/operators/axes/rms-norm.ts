// RmsNorm(x, scale) {epsilon = 1e-6}: x / sqrt(mean(x^2) + epsilon) * scale over the last axis.

import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "../check.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";

const epsilonDefault = 1e-6;

/** x and 1 / sqrt(mean(x^2) + epsilon) for each row. */
function normalise(builder: Builder, x: Value, attributes: Attributes): { normal: Value; inverse: Value } {
  const axes = [x.shape.length - 1];
  const mean = builder.op("ReduceMean", [builder.op("Mul", [x, x])], { axes, keepdims: 1 });
  const shifted = builder.op("Add", [mean, builder.scalar(numberOf(attributes, "epsilon", epsilonDefault))]);
  const inverse = builder.op("Reciprocal", [builder.op("Sqrt", [shifted])]);
  return { normal: builder.op("Mul", [x, inverse]), inverse };
}

export const rmsNorm: Operator = {
  type: "RmsNorm",
  cheap: true,
  infer(inputs) {
    checkArity("RmsNorm", inputs, 2);
    checkFloat("RmsNorm", inputs);
    const [x, scale] = inputs as [Value, Value];
    if (scale.shape.length !== 1 || scale.shape[0] !== x.shape.at(-1))
      refuse("RmsNorm", inputs, `the scale must have the shape [${x.shape.at(-1)}]`);
    return [{ dtype: x.dtype, shape: x.shape }];
  },
  plan(inputs, _outputs, attributes) {
    const width = (inputs[0] as ValueInfo).shape.at(-1) as number;
    const epsilon = numberOf(attributes, "epsilon", epsilonDefault);
    return (data, results) => {
      const [x, scale] = data as [Float32Array, Float32Array];
      const y = results[0] as Float32Array;
      for (let row = 0; row < y.length; row += width) {
        let squares = 0;
        for (let i = 0; i < width; i++) squares += (x[row + i] as number) ** 2;
        const inverse = 1 / Math.sqrt(squares / width + epsilon);
        for (let i = 0; i < width; i++) y[row + i] = (x[row + i] as number) * inverse * (scale[i] as number);
      }
    };
  },
  lower: (builder, inputs, attributes) => [
    builder.op("Mul", [normalise(builder, inputs[0] as Value, attributes).normal, inputs[1] as Value]),
  ],
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [x, scale] = inputs as [Value, Value];
    const dy = gradients[0] as Value;
    const { normal, inverse } = normalise(builder, x, attributes);
    const product = builder.op("Mul", [dy, normal]);
    const dx = () => {
      const axes = [x.shape.length - 1];
      const along = builder.op("ReduceMean", [builder.op("Mul", [product, scale])], { axes, keepdims: 1 });
      const rest = builder.op("Sub", [builder.op("Mul", [dy, scale]), builder.op("Mul", [normal, along])]);
      return builder.op("Mul", [rest, inverse]);
    };
    return [wanted[0] ? dx() : undefined, wanted[1] ? reduceTo(builder, product, scale.shape) : undefined];
  },
  flops: (inputs) => 5 * elementCount((inputs[0] as ValueInfo).shape),
};
