// Where(condition, a, b): a where the condition holds, else b; all three broadcast.

import type { Shape } from "../../../core/tensor.ts";
import { broadcastIndex, broadcastShape, checkArity, refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { reduceTo } from "./elementwise.ts";

export const where: Operator = {
  type: "Where",
  cheap: true,
  infer(inputs) {
    checkArity("Where", inputs, 3);
    const [condition, a, b] = inputs as [Value, Value, Value];
    if (condition.dtype !== "bool" || a.dtype !== b.dtype)
      refuse("Where", inputs, "takes a bool condition and two inputs of one dtype");
    const pair = broadcastShape(a.shape, b.shape);
    const shape = pair && broadcastShape(condition.shape, pair);
    if (shape === undefined) refuse("Where", inputs, "these shapes do not broadcast to each other");
    return [{ dtype: a.dtype, shape }];
  },
  plan(inputs, outputs) {
    const shape = outputs[0]?.shape as Shape;
    const [at, fromA, fromB] = inputs.map((input) => broadcastIndex(input.shape, shape)) as [
      Int32Array,
      Int32Array,
      Int32Array,
    ];
    return (data, results) => {
      const [condition, a, b] = data as [Uint8Array, Float32Array, Float32Array];
      const y = results[0] as Float32Array;
      for (let i = 0; i < y.length; i++)
        y[i] = (condition[at[i] as number] ? a[fromA[i] as number] : b[fromB[i] as number]) as number;
    };
  },
  vjp({ builder, inputs, gradients, wanted }) {
    const [condition, a, b] = inputs as [Value, Value, Value];
    const dy = gradients[0] as Value;
    const zero = builder.scalar(0);
    return [
      undefined,
      wanted[1] ? reduceTo(builder, builder.op("Where", [condition, dy, zero]), a.shape) : undefined,
      wanted[2] ? reduceTo(builder, builder.op("Where", [condition, zero, dy]), b.shape) : undefined,
    ];
  },
};
