// Concat {axis}: joins inputs along an existing axis.

import type { ValueInfo } from "../../model.ts";
import { numberOf, refuse, resolveAxis, splitAt } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";

function axisOf(inputs: readonly Value[], attributes: Attributes): number {
  if (inputs.length === 0) refuse("Concat", inputs, "needs at least one input");
  return resolveAxis("Concat", inputs, numberOf(attributes, "axis", 0), (inputs[0] as Value).shape.length);
}

export const concat: Operator = {
  type: "Concat",
  cheap: true,
  infer(inputs, attributes) {
    const axis = axisOf(inputs, attributes);
    const [first] = inputs as [Value];
    for (const { dtype, shape } of inputs)
      if (
        dtype !== first.dtype ||
        shape.length !== first.shape.length ||
        shape.some((size, i) => i !== axis && size !== first.shape[i])
      )
        refuse("Concat", inputs, `inputs may differ along axis ${axis} only`);
    const total = inputs.reduce((sum, { shape }) => sum + (shape[axis] as number), 0);
    return [{ dtype: first.dtype, shape: first.shape.map((size, i) => (i === axis ? total : size)) }];
  },
  plan(inputs, outputs, attributes) {
    const axis = axisOf(inputs, attributes);
    const { outer, size, inner } = splitAt((outputs[0] as ValueInfo).shape, axis);
    const widths = inputs.map(({ shape }) => (shape[axis] as number) * inner);
    return (data, results) => {
      const y = results[0] as Float32Array;
      let column = 0;
      for (let part = 0; part < data.length; part++) {
        const x = data[part] as Float32Array;
        const width = widths[part] as number;
        for (let row = 0; row < outer; row++)
          y.set(x.subarray(row * width, (row + 1) * width), row * size * inner + column);
        column += width;
      }
    };
  },
  vjp({ builder, inputs, gradients, attributes }) {
    const axis = axisOf(inputs, attributes);
    const sizes = inputs.map(({ shape }) => shape[axis] as number);
    if (inputs.length === 1) return [gradients[0]];
    return builder.ops("Split", [gradients[0] as Value], { axis, split: sizes }, inputs.length);
  },
  flops: () => 0,
};
