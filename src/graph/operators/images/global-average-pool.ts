// GlobalAveragePool(x [batch, channels, h, w]) -> [batch, channels, 1, 1]. Becomes a mean over two axes.

import { reduceMean } from "../axes/reduce-mean.ts";
import { checkArity, checkFloat, refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

const attributes = { axes: [2, 3], keepdims: 1 };

export const globalAveragePool: Operator = {
  type: "GlobalAveragePool",
  cheap: true,
  infer(inputs) {
    checkArity("GlobalAveragePool", inputs, 1);
    checkFloat("GlobalAveragePool", inputs);
    const [x] = inputs as [Value];
    if (x.shape.length !== 4) refuse("GlobalAveragePool", inputs, "takes images as [batch, channels, height, width]");
    return [{ dtype: x.dtype, shape: [...x.shape.slice(0, 2), 1, 1] }];
  },
  plan: (inputs, outputs) => reduceMean.plan(inputs, outputs, attributes),
  lower: (builder, inputs) => [builder.op("ReduceMean", [inputs[0] as Value], attributes)],
  vjp: (derivation) => reduceMean.vjp?.({ ...derivation, attributes }) ?? [],
};
