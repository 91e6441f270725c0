// MaxPool(x) {kernel_shape, strides, pads, dilations} -> y, flat int64 indices of the maxima. The gradient goes
// to the first maximum of each window, in index order.

import { elementCount, type Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { eachTap, windowOf } from "./pooling.ts";

export const maxPool: Operator = {
  type: "MaxPool",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("MaxPool", inputs, 1);
    checkFloat("MaxPool", inputs);
    const [x] = inputs as [Value];
    const shape: Shape = [...x.shape.slice(0, 2), ...windowOf("MaxPool", inputs, attributes).output];
    return [
      { dtype: x.dtype, shape },
      { dtype: "int64", shape },
    ];
  },
  plan(inputs, _outputs, attributes) {
    const { shape } = inputs[0] as ValueInfo;
    const window = windowOf("MaxPool", inputs, attributes);
    const [batch, channels, height, width] = shape as [number, number, number, number];
    const [outHeight, outWidth] = window.output;
    return (data, results) => {
      const x = data[0] as Float32Array;
      const [y, indices] = results as [Float32Array, BigInt64Array?];
      let at = 0;
      for (let plane = 0; plane < batch * channels; plane++)
        for (let row = 0; row < outHeight; row++)
          for (let column = 0; column < outWidth; column++) {
            let best = -1;
            eachTap(window, [height, width], [row, column], (i, j) => {
              const from = (plane * height + i) * width + j;
              if (best < 0 || (x[from] as number) > (x[best] as number)) best = from;
            });
            if (indices) indices[at] = BigInt(best);
            y[at++] = x[best] as number;
          }
    };
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const [x] = inputs as [Value];
    const dy = gradients[0] as Value;
    const [, indices] = builder.ops("MaxPool", [x], attributes, 2) as [Value, Value];
    const zeros = builder.op("Expand", [builder.scalar(0)], { shape: [elementCount(x.shape)] });
    const flat = (value: Value) => builder.op("Reshape", [value], { shape: [-1] });
    const spread = builder.op("ScatterElements", [zeros, flat(indices), flat(dy)], { axis: 0, reduction: "add" });
    return [builder.op("Reshape", [spread], { shape: x.shape })];
  },
};
