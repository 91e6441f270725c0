// Rope(x [.., seq, width], cos [seq, width / 2], sin [seq, width / 2]) {interleaved = 0}: rotary positions. Pairs
// are (i, i + width / 2), or (2i, 2i + 1) when interleaved = 1. A rotation's transpose turns back, so the
// backward is the same operator with -sin.

import { elementCount } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { rotationKernel } from "./rotation.ts";

export const rope: Operator = {
  type: "Rope",
  cheap: true,
  infer(inputs) {
    checkArity("Rope", inputs, 3);
    checkFloat("Rope", inputs);
    const [x, cos, sin] = inputs as [Value, Value, Value];
    const [sequence, width] = x.shape.slice(-2) as [number, number];
    const table = `${sequence},${width / 2}`;
    if (x.shape.length < 2 || String(cos.shape) !== table || String(sin.shape) !== table)
      refuse("Rope", inputs, `the tables must have the shape [${table}]`);
    return [{ dtype: x.dtype, shape: x.shape }];
  },
  plan: (inputs, _outputs, attributes) =>
    rotationKernel((inputs[0] as ValueInfo).shape, numberOf(attributes, "interleaved", 0) === 1),
  lower(builder, inputs, attributes) {
    const [x, cos, sin] = inputs as [Value, Value, Value];
    const interleaved = numberOf(attributes, "interleaved", 0);
    const fits = x.shape.length === 3 || x.shape.length === 4;
    const stacked = fits ? x : builder.op("Reshape", [x], { shape: [-1, ...x.shape.slice(-2)] });
    const turned = builder.op("RotaryEmbedding", [stacked, cos, sin], { interleaved, positions: [0] });
    return [builder.op("Reshape", [turned], { shape: x.shape })];
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const [, cos, sin] = inputs as [Value, Value, Value];
    const back = builder.op("Rope", [gradients[0] as Value, cos, builder.op("Neg", [sin])], attributes);
    return [back, undefined, undefined];
  },
  flops: (inputs) => 3 * elementCount((inputs[0] as ValueInfo).shape),
};
