// RotaryEmbedding(x, cos, sin) {interleaved, positions: [0]}: ONNX Runtime's rotation in a single pass, which Rope is
// lowered to. x is [batch, seq, width] or [batch, heads, seq, width]; `positions` holds that of the first row.

import { numberOf, numbersOf, refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { rotationKernel } from "./rotation.ts";

export const rotaryEmbedding: Operator = {
  type: "RotaryEmbedding",
  domain: "com.microsoft",
  attributeInputs: ["positions"],
  attributeInputsAt: 1,
  cheap: true,
  infer(inputs, attributes) {
    const [x] = inputs as [Value];
    const rank = x?.shape.length;
    if (inputs.length !== 3 || (rank !== 3 && rank !== 4) || String(numbersOf(attributes, "positions")) !== "0")
      refuse("RotaryEmbedding", inputs, "takes 3 or 4 axes, two tables, and positions from 0");
    return [{ dtype: x.dtype, shape: x.shape }];
  },
  plan: (inputs, _outputs, attributes) =>
    rotationKernel(inputs[0]?.shape ?? [], numberOf(attributes, "interleaved", 0) === 1),
};
