// Silu: x sigmoid(x); dx = dy (s + y (1 - s)) with s = sigmoid(x).

import { unary } from "../elements/elementwise.ts";
import type { Operator, Value } from "../operator.ts";
import { sigmoidOf } from "./sigmoid.ts";

export const silu: Operator = {
  ...unary("Silu", (x) => x * sigmoidOf(x)),
  lower: (builder, inputs) => [builder.op("Mul", [inputs[0] as Value, builder.op("Sigmoid", [inputs[0] as Value])])],
  vjp({ builder, inputs, gradients }) {
    const [x] = inputs as [Value];
    const s = builder.op("Sigmoid", [x]);
    const rest = builder.op("Mul", [builder.op("Mul", [x, s]), builder.op("Sub", [builder.scalar(1), s])]);
    return [builder.op("Mul", [gradients[0] as Value, builder.op("Add", [s, rest])])];
  },
  flops: (inputs) => 5 * (inputs[0]?.shape ?? []).reduce((product, size) => product * size, 1),
};
