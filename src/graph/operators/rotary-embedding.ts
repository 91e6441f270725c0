// RotaryEmbedding(x, first int64 [1], cos, sin) {interleaved}: ONNX Runtime's rotation in a single pass, which Rope is
// lowered to. x is [batch, seq, width] or [batch, heads, seq, width]; `first` is the position of the first row.

import { numberOf, refuse } from "./check.ts";
import type { Operator, Value } from "./operator.ts";
import { rotationKernel } from "./rotation.ts";

export const rotaryEmbedding: Operator = {
  type: "RotaryEmbedding",
  domain: "com.microsoft",
  cheap: true,
  infer(inputs) {
    const [x, first] = inputs as [Value, Value];
    if (
      inputs.length !== 4 ||
      (x.shape.length !== 3 && x.shape.length !== 4) ||
      Number(first.constant?.data[0] ?? 0) !== 0
    )
      refuse("RotaryEmbedding", inputs, "takes 3 or 4 axes, positions from 0, and two tables");
    return [{ dtype: x.dtype, shape: x.shape }];
  },
  plan(inputs, _outputs, attributes) {
    const rotate = rotationKernel(inputs[0]?.shape ?? [], numberOf(attributes, "interleaved", 0) === 1);
    return ([x, , cos, sin], outputs) => rotate([x, cos, sin] as Float32Array[], outputs);
  },
};
