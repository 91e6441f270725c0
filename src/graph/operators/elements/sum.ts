// Sum(a, b, ..): adds any number of inputs of one shape, from left to right.

import { refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

export const sum: Operator = {
  type: "Sum",
  cheap: true,
  infer(inputs) {
    const [first] = inputs as [Value];
    if (
      first === undefined ||
      inputs.some(({ dtype, shape }) => dtype !== first.dtype || String(shape) !== String(first.shape))
    )
      refuse("Sum", inputs, "takes inputs of one dtype and shape");
    return [{ dtype: first.dtype, shape: first.shape }];
  },
  plan: () => (data, results) => {
    const y = results[0] as Float32Array;
    for (let i = 0; i < y.length; i++) {
      let total = 0;
      for (const x of data) total += x[i] as number;
      y[i] = total;
    }
  },
  vjp: ({ inputs, gradients }) => inputs.map(() => gradients[0]),
};
