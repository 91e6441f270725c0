// Split {axis = 0, split: sizes} or {num_outputs}: cuts along an axis.

import type { Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, numberOf, numbersOf, refuse, resolveAxis, splitAt } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";

function axisOf(inputs: readonly Value[], attributes: Attributes): number {
  return resolveAxis("Split", inputs, numberOf(attributes, "axis", 0), (inputs[0] as Value).shape.length);
}

function sizesOf(inputs: readonly Value[], attributes: Attributes): readonly number[] {
  const given = numbersOf(attributes, "split");
  if (given !== undefined) return given;
  const total = (inputs[0] as Value).shape[axisOf(inputs, attributes)] as number;
  const count = numberOf(attributes, "num_outputs", 0);
  if (count < 1 || count > total) refuse("Split", inputs, "needs `split` sizes or `num_outputs`");
  const size = Math.ceil(total / count);
  return Array.from({ length: count }, (_, part) => Math.min(size, total - part * size));
}

export const split: Operator = {
  type: "Split",
  attributeInputs: ["split"],
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Split", inputs, 1);
    const [x] = inputs as [Value];
    const axis = axisOf(inputs, attributes);
    const sizes = sizesOf(inputs, attributes);
    if (sizes.reduce((sum, size) => sum + size, 0) !== x.shape[axis] || sizes.some((size) => size < 0))
      refuse("Split", inputs, `sizes [${sizes}] must add up to ${x.shape[axis]}`);
    return sizes.map((part) => ({ dtype: x.dtype, shape: x.shape.map((size, i) => (i === axis ? part : size)) }));
  },
  plan(inputs, outputs, attributes) {
    const axis = axisOf(inputs, attributes);
    const { outer, size, inner } = splitAt((inputs[0] as ValueInfo).shape, axis);
    const widths = outputs.map(({ shape }) => (shape[axis] as number) * inner);
    return (data, results) => {
      const x = data[0] as Float32Array;
      let column = 0;
      for (let part = 0; part < results.length; part++) {
        const y = results[part] as Float32Array;
        const width = widths[part] as number;
        for (let row = 0; row < outer; row++) {
          const from = row * size * inner + column;
          y.set(x.subarray(from, from + width), row * width);
        }
        column += width;
      }
    };
  },
  vjp({ builder, inputs, outputs, gradients, attributes }) {
    const axis = axisOf(inputs, attributes);
    const parts = outputs.map((output, i) => gradients[i] ?? zeros(builder, output.shape));
    return [parts.length === 1 ? parts[0] : builder.op("Concat", parts, { axis })];
  },
  flops: () => 0,
};

function zeros(
  builder: { scalar(value: number): Value; op: (type: string, inputs: Value[], attributes: Attributes) => Value },
  shape: Shape,
): Value {
  return builder.op("Expand", [builder.scalar(0)], { shape });
}
