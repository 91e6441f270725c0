// BatchNormalization(x [batch, channels, ..], scale, bias, mean, variance) {epsilon = 1e-5} as imported models carry
// it, for inference: the statistics are fixed numbers; scale and bias can be trained.

import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse, splitAt } from "../check.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";

/** (x - mean) / sqrt(variance + epsilon), and the parts of it. */
function normalise(builder: Builder, inputs: readonly Value[], attributes: Attributes) {
  const [x, , , mean, variance] = inputs as [Value, Value, Value, Value, Value];
  const column = (value: Value) => channelShaped(builder, value, x);
  const shifted = builder.op("Add", [variance, builder.scalar(numberOf(attributes, "epsilon", 1e-5))]);
  const inverse = column(builder.op("Reciprocal", [builder.op("Sqrt", [shifted])]));
  return { inverse, normal: builder.op("Mul", [builder.op("Sub", [x, column(mean)]), inverse]) };
}

function channelShaped(builder: Builder, value: Value, x: Value): Value {
  return builder.op("Reshape", [value], { shape: x.shape.map((size, axis) => (axis === 1 ? size : 1)) });
}

export const batchNormalization: Operator = {
  type: "BatchNormalization",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("BatchNormalization", inputs, 5);
    checkFloat("BatchNormalization", inputs);
    const [x, ...rest] = inputs as [Value, ...Value[]];
    if (numberOf(attributes, "training_mode", 0) === 1)
      refuse("BatchNormalization", inputs, "statistics over a batch are not supported: export the model for inference");
    if (x.shape.length < 2 || rest.some(({ shape }) => String(shape) !== String([x.shape[1]])))
      refuse("BatchNormalization", inputs, `scale, bias, mean and variance must have the shape [${x.shape[1]}]`);
    return [{ dtype: x.dtype, shape: x.shape }];
  },
  plan(inputs, _outputs, attributes) {
    const { size, inner } = splitAt((inputs[0] as ValueInfo).shape, 1);
    const epsilon = numberOf(attributes, "epsilon", 1e-5);
    return (data, results) => {
      const [x, scale, bias, mean, variance] = data as Float32Array[] as [
        Float32Array,
        Float32Array,
        Float32Array,
        Float32Array,
        Float32Array,
      ];
      const y = results[0] as Float32Array;
      for (let i = 0; i < y.length; i++) {
        const c = Math.floor(i / inner) % size;
        const normal = ((x[i] as number) - (mean[c] as number)) / Math.sqrt((variance[c] as number) + epsilon);
        y[i] = normal * (scale[c] as number) + (bias[c] as number);
      }
    };
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [x, scale] = inputs as [Value, Value];
    const dy = gradients[0] as Value;
    if (wanted[3] || wanted[4])
      refuse("BatchNormalization", inputs, "its mean and variance are fixed: do not train them");
    const { inverse, normal } = normalise(builder, inputs, attributes);
    const axes = x.shape.flatMap((_, axis) => (axis === 1 ? [] : [axis]));
    const overChannels = (value: Value) => builder.op("ReduceSum", [value], { axes, keepdims: 0 });
    const slope = () => builder.op("Mul", [inverse, channelShaped(builder, scale, x)]);
    return [
      wanted[0] ? builder.op("Mul", [dy, slope()]) : undefined,
      wanted[1] ? overChannels(builder.op("Mul", [dy, normal])) : undefined,
      wanted[2] ? overChannels(dy) : undefined,
      undefined,
      undefined,
    ];
  },
  flops: (inputs) => 4 * elementCount((inputs[0] as ValueInfo).shape),
};
