// Rope(x [.., seq, width], cos [seq, width / 2], sin [seq, width / 2]) {interleaved = 0}: rotary positions. Pairs
// are (i, i + width / 2), or (2i, 2i + 1) when interleaved = 1. A rotation's transpose turns back, so the
// backward is the same operator with -sin.

import { elementCount } from "../../core/tensor.ts";
import type { ValueInfo } from "../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "./check.ts";
import type { Attributes, Builder, Operator, Value } from "./operator.ts";

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
  plan(inputs, _outputs, attributes) {
    const { shape } = inputs[0] as ValueInfo;
    const [sequence, width] = shape.slice(-2) as [number, number];
    const half = width / 2;
    const interleaved = numberOf(attributes, "interleaved", 0) === 1;
    return (data, results) => {
      const [x, cos, sin] = data as [Float32Array, Float32Array, Float32Array];
      const y = results[0] as Float32Array;
      for (let row = 0; row < y.length / width; row++)
        for (let i = 0; i < half; i++) {
          const [first, second] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
          const angle = (row % sequence) * half + i;
          const [c, s] = [cos[angle] as number, sin[angle] as number];
          const [a, b] = [x[row * width + first] as number, x[row * width + second] as number];
          y[row * width + first] = a * c - b * s;
          y[row * width + second] = a * s + b * c;
        }
    };
  },
  lower: (builder, inputs, attributes) => [
    rotate(builder, inputs[0] as Value, [inputs[1] as Value, inputs[2] as Value], attributes),
  ],
  vjp({ builder, inputs, gradients, attributes }) {
    const [, cos, sin] = inputs as [Value, Value, Value];
    const back = builder.op("Rope", [gradients[0] as Value, cos, builder.op("Neg", [sin])], attributes);
    return [back, undefined, undefined];
  },
  flops: (inputs) => 3 * elementCount((inputs[0] as ValueInfo).shape),
};

function rotate(builder: Builder, x: Value, [cos, sin]: [Value, Value], attributes: Attributes): Value {
  const width = x.shape.at(-1) as number;
  const half = width / 2;
  const rank = x.shape.length;
  if (numberOf(attributes, "interleaved", 0) !== 1) {
    const [a, b] = builder.ops("Split", [x], { axis: rank - 1, split: [half, half] }, 2) as [Value, Value];
    return builder.op("Concat", turned(builder, a, b, cos, sin), { axis: rank - 1 });
  }
  // Pairs as their own axis: [.., seq, half, 2] split into the two members of each pair.
  const pairs = builder.op("Reshape", [x], { shape: [...x.shape.slice(0, -1), half, 2] });
  const [a, b] = builder.ops("Split", [pairs], { axis: rank, split: [1, 1] }, 2) as [Value, Value];
  const column = (table: Value) => builder.op("Reshape", [table], { shape: [...table.shape, 1] });
  const joined = builder.op("Concat", turned(builder, a, b, column(cos), column(sin)), { axis: rank });
  return builder.op("Reshape", [joined], { shape: x.shape });
}

function turned(builder: Builder, a: Value, b: Value, cos: Value, sin: Value): [Value, Value] {
  const first = builder.op("Sub", [builder.op("Mul", [a, cos]), builder.op("Mul", [b, sin])]);
  const second = builder.op("Add", [builder.op("Mul", [b, cos]), builder.op("Mul", [a, sin])]);
  return [first, second];
}
