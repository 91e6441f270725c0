// Conv(x [batch, in, h, w], weight [out, in / group, kh, kw], bias? [out]) {strides, pads, dilations, group}. Gradients
// are convolutions too: ConvTranspose for the input; for the weight a Conv that swaps batch and channels, and
// strides with dilations.

import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, checkRank, numberOf, refuse } from "../check.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";
import { eachTap, type Window, windowOf } from "./pooling.ts";

function windowFor(inputs: readonly Value[], attributes: Attributes): Window {
  return windowOf("Conv", inputs, attributes, (inputs[1] as Value).shape.slice(2));
}

export const conv: Operator = {
  type: "Conv",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("Conv", inputs, 2, 3);
    checkFloat("Conv", inputs);
    checkRank("Conv", inputs, 1, 4);
    const [x, weight, bias] = inputs as [Value, Value, Value?];
    const { output } = windowFor(inputs, attributes);
    const group = numberOf(attributes, "group", 1);
    const [filters, channels] = weight.shape as [number, number];
    if (x.shape[1] !== channels * group || filters % group !== 0)
      refuse("Conv", inputs, `${group} groups of ${channels} channels do not fit the input and its ${filters} filters`);
    if (bias && String(bias.shape) !== String([filters]))
      refuse("Conv", inputs, `the bias must have the shape [${filters}]`);
    return [{ dtype: x.dtype, shape: [x.shape[0] as number, filters, ...output] }];
  },
  plan(inputs, _outputs, attributes) {
    const [x, weight] = inputs as [ValueInfo, ValueInfo];
    const window = windowFor(inputs, attributes);
    const group = numberOf(attributes, "group", 1);
    const [batch, channels, height, width] = x.shape as [number, number, number, number];
    const [filters, depth, kernelHeight, kernelWidth] = weight.shape as [number, number, number, number];
    const [outHeight, outWidth] = window.output;
    const taps = kernelHeight * kernelWidth;
    return (data, results) => {
      const [image, filter, bias] = data as [Float32Array, Float32Array, Float32Array?];
      const y = results[0] as Float32Array;
      let at = 0;
      for (let n = 0; n < batch; n++)
        for (let f = 0; f < filters; f++) {
          const first = Math.floor(f / (filters / group)) * depth;
          for (let row = 0; row < outHeight; row++)
            for (let column = 0; column < outWidth; column++) {
              let sum = bias?.[f] ?? 0;
              eachTap(window, [height, width], [row, column], (i, j, tap) => {
                for (let c = 0; c < depth; c++)
                  sum +=
                    (image[((n * channels + first + c) * height + i) * width + j] as number) *
                    (filter[(f * depth + c) * taps + tap] as number);
              });
              y[at++] = sum;
            }
        }
    };
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const dy = gradients[0] as Value;
    const window = windowFor(inputs, attributes);
    const group = numberOf(attributes, "group", 1);
    return [
      wanted[0] ? inputGradient(builder, inputs, dy, window, group) : undefined,
      wanted[1] ? weightGradient(builder, inputs, dy, window, group) : undefined,
      wanted[2] ? builder.op("ReduceSum", [dy], { axes: [0, 2, 3], keepdims: 0 }) : undefined,
    ].slice(0, inputs.length);
  },
  flops(inputs, outputs) {
    const [, depth, height, width] = (inputs[1] as ValueInfo).shape as [number, number, number, number];
    return 2 * elementCount((outputs[0] as ValueInfo).shape) * depth * height * width;
  },
};

function inputGradient(builder: Builder, inputs: readonly Value[], dy: Value, window: Window, group: number): Value {
  const [x, weight] = inputs as [Value, Value];
  const { strides, pads, dilations, kernel, output } = window;
  // What the last window leaves over at the bottom and right belongs to the gradient's shape, as zeros.
  const rest = [0, 1].map((axis) => {
    const covered =
      ((output[axis] as number) - 1) * (strides[axis] as number) +
      ((kernel[axis] as number) - 1) * (dilations[axis] as number) +
      1;
    return (x.shape[axis + 2] as number) + (pads[axis] as number) + (pads[axis + 2] as number) - covered;
  });
  return builder.op("ConvTranspose", [dy, weight], { strides, pads, dilations, group, output_padding: rest });
}

/** Of a convolution of `inputs` whose result has the gradient `dy`. */
export function weightGradient(
  builder: Builder,
  inputs: readonly Value[],
  dy: Value,
  window: Window,
  group: number,
): Value {
  const [x, weight] = inputs as [Value, Value];
  const { strides, pads, dilations, kernel } = window;
  const [batch, , height, width] = x.shape as [number, number, number, number];
  const [filters, depth] = weight.shape as [number, number];
  const perGroup = filters / group;
  const swap = (value: Value, from: readonly number[], perm: readonly number[], to: readonly number[]) => {
    const apart = builder.op("Reshape", [value], { shape: from });
    return builder.op("Reshape", [builder.op("Transpose", [apart], { perm })], { shape: to });
  };
  const image = swap(x, [batch, group, depth, height, width], [2, 1, 0, 3, 4], [depth, group * batch, height, width]);
  const size = dy.shape.slice(2);
  const filter = swap(dy, [batch, group, perGroup, ...size], [1, 2, 0, 3, 4], [filters, batch, ...size]);
  const wide = builder.op("Conv", [image, filter], { strides: dilations, dilations: strides, pads, group });
  const cut =
    wide.shape[2] === kernel[0] && wide.shape[3] === kernel[1]
      ? wide
      : builder.op("Slice", [wide], { starts: [0, 0], ends: [...kernel], axes: [2, 3] });
  return swap(cut, [depth, group, perGroup, ...kernel], [1, 2, 0, 3, 4], [...weight.shape]);
}
