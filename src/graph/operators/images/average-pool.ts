// AveragePool(x) {kernel_shape, strides, pads, count_include_pad = 0}. Its gradient is a ConvTranspose with a
// kernel of ones, channel by channel.

import { float32, type Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { eachTap, type Window, windowOf } from "./pooling.ts";

/** How many image elements each window covers. */
function coverage(window: Window, size: readonly [number, number], includePads: boolean): Float32Array {
  const [rows, columns] = window.output;
  const counts = new Float32Array(rows * columns);
  for (let i = 0; i < counts.length; i++) {
    let count = 0;
    eachTap(window, size, [Math.floor(i / columns), i % columns], () => count++);
    counts[i] = includePads ? window.kernel[0] * window.kernel[1] : count;
  }
  return counts;
}

export const averagePool: Operator = {
  type: "AveragePool",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("AveragePool", inputs, 1);
    checkFloat("AveragePool", inputs);
    const [x] = inputs as [Value];
    return [{ dtype: x.dtype, shape: [...x.shape.slice(0, 2), ...windowOf("AveragePool", inputs, attributes).output] }];
  },
  plan(inputs, _outputs, attributes) {
    const [batch, channels, height, width] = (inputs[0] as ValueInfo).shape as unknown as [
      number,
      number,
      number,
      number,
    ];
    const window = windowOf("AveragePool", inputs, attributes);
    const counts = coverage(window, [height, width], numberOf(attributes, "count_include_pad", 0) === 1);
    const columns = window.output[1];
    return (data, results) => {
      const [x, y] = [data[0] as Float32Array, results[0] as Float32Array];
      for (let at = 0; at < y.length; at++) {
        const place = at % counts.length;
        const plane = Math.floor(at / counts.length);
        let sum = 0;
        eachTap(window, [height, width], [Math.floor(place / columns), place % columns], (i, j) => {
          sum += x[(plane * height + i) * width + j] as number;
        });
        y[at] = sum / (counts[place] as number);
      }
      if (y.length !== batch * channels * counts.length) refuse("AveragePool", inputs, "was given another shape");
    };
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const [x] = inputs as [Value];
    const [batch, channels, height, width] = x.shape as [number, number, number, number];
    const window = windowOf("AveragePool", inputs, attributes);
    const counts = coverage(window, [height, width], numberOf(attributes, "count_include_pad", 0) === 1);
    const shares = builder.constant(
      float32(
        [...window.output],
        counts.map((count) => 1 / count),
      ),
    );
    const planes: Shape = [batch * channels, 1, ...window.output];
    const dy = builder.op("Reshape", [builder.op("Mul", [gradients[0] as Value, shares])], { shape: planes });
    const ones = new Float32Array(window.kernel[0] * window.kernel[1]).fill(1);
    const rest = [0, 1].map((axis) => {
      const covered =
        (window.output[axis] as number) * (window.strides[axis] as number) - (window.strides[axis] as number);
      const reach = ((window.kernel[axis] as number) - 1) * (window.dilations[axis] as number) + 1;
      const padded = (x.shape[axis + 2] as number) + (window.pads[axis] as number) + (window.pads[axis + 2] as number);
      return padded - covered - reach;
    });
    const { strides, pads, dilations } = window;
    const kernel = builder.constant(float32([1, 1, ...window.kernel], ones));
    const spread = builder.op("ConvTranspose", [dy, kernel], {
      strides,
      pads,
      dilations,
      group: 1,
      output_padding: rest,
    });
    return [builder.op("Reshape", [spread], { shape: x.shape })];
  },
};
