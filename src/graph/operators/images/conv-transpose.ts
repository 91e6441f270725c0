// ConvTranspose(x, weight [in, out / group, kh, kw]) {strides, pads, dilations, group, output_padding}: the gradient
// of a convolution with respect to its input, and a layer of its own in imported models. Its gradients are convolutions.

import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkRank, numberOf, numbersOf, refuse } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { weightGradient } from "./conv.ts";
import { eachTap, type Window } from "./pooling.ts";

function windowFor(
  inputs: readonly Value[],
  attributes: Attributes,
): { window: Window; size: readonly [number, number] } {
  const [x, weight] = inputs as [Value, Value];
  const kernel = weight.shape.slice(2) as unknown as Window["kernel"];
  const strides = (numbersOf(attributes, "strides") ?? [1, 1]) as Window["strides"];
  const dilations = (numbersOf(attributes, "dilations") ?? [1, 1]) as Window["dilations"];
  const pads = (numbersOf(attributes, "pads") ?? [0, 0, 0, 0]) as Window["pads"];
  const rest = numbersOf(attributes, "output_padding") ?? [0, 0];
  const output = x.shape.slice(2) as unknown as Window["output"];
  const size = [0, 1].map(
    (axis) =>
      ((output[axis] as number) - 1) * (strides[axis] as number) +
      ((kernel[axis] as number) - 1) * (dilations[axis] as number) +
      1 +
      (rest[axis] as number) -
      (pads[axis] as number) -
      (pads[axis + 2] as number),
  ) as unknown as [number, number];
  return { window: { kernel, strides, pads, dilations, output }, size };
}

export const convTranspose: Operator = {
  type: "ConvTranspose",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("ConvTranspose", inputs, 2);
    checkRank("ConvTranspose", inputs, 0, 4);
    checkRank("ConvTranspose", inputs, 1, 4);
    const [x, weight] = inputs as [Value, Value];
    if (x.shape[1] !== weight.shape[0])
      refuse("ConvTranspose", inputs, "the weight's first axis must be the input's channels");
    const channels = (weight.shape[1] as number) * numberOf(attributes, "group", 1);
    return [{ dtype: x.dtype, shape: [x.shape[0] as number, channels, ...windowFor(inputs, attributes).size] }];
  },
  plan(inputs, _outputs, attributes) {
    const [x, weight] = inputs as [ValueInfo, ValueInfo];
    const { window, size } = windowFor(inputs, attributes);
    const group = numberOf(attributes, "group", 1);
    const [batch, filters] = x.shape as [number, number];
    const depth = weight.shape[1] as number;
    const [height, width] = size;
    const [inHeight, inWidth] = window.output;
    const taps = window.kernel[0] * window.kernel[1];
    const sums = new Float64Array(batch * depth * group * height * width);
    return (data, results) => {
      const [image, filter] = data as [Float32Array, Float32Array];
      sums.fill(0);
      for (let n = 0; n < batch; n++)
        for (let f = 0; f < filters; f++) {
          const first = n * depth * group + Math.floor(f / (filters / group)) * depth;
          for (let row = 0; row < inHeight; row++)
            for (let column = 0; column < inWidth; column++) {
              const value = image[((n * filters + f) * inHeight + row) * inWidth + column] as number;
              eachTap(window, size, [row, column], (i, j, tap) => {
                for (let c = 0; c < depth; c++) {
                  const at = ((first + c) * height + i) * width + j;
                  sums[at] = (sums[at] as number) + value * (filter[(f * depth + c) * taps + tap] as number);
                }
              });
            }
        }
      (results[0] as Float32Array).set(sums);
    };
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [x, weight] = inputs as [Value, Value];
    const dy = gradients[0] as Value;
    const group = numberOf(attributes, "group", 1);
    const { window } = windowFor(inputs, attributes);
    const { strides, pads, dilations } = window;
    // The convolution that this one is the gradient of: from y to x, with the same weight.
    const back = builder.op("Conv", [dy, weight], { strides, pads, dilations, group });
    if (wanted[0] && String(back.shape) !== String(x.shape))
      refuse("ConvTranspose", inputs, "has a derivative only if output_padding is below the strides");
    return [
      wanted[0] ? back : undefined,
      wanted[1] ? weightGradient(builder, [dy, weight], x, window, group) : undefined,
    ];
  },
  flops(inputs) {
    const [, depth, height, width] = (inputs[1] as ValueInfo).shape as [number, number, number, number];
    return 2 * elementCount((inputs[0] as ValueInfo).shape) * depth * height * width;
  },
};
