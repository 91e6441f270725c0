// LayerNormalization(x, scale, bias?) {axis = -1, epsilon = 1e-5} -> y, mean?, inverse deviation?. The backward
// works from x alone: normalising again costs less than keeping the result.

import { elementCount, float32 } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse, resolveAxis } from "../check.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Attributes, Operator, Value } from "../operator.ts";

function axisOf(inputs: readonly Value[], attributes: Attributes): number {
  return resolveAxis("LayerNormalization", inputs, numberOf(attributes, "axis", -1), (inputs[0] as Value).shape.length);
}

export const layerNormalization: Operator = {
  type: "LayerNormalization",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("LayerNormalization", inputs, 2, 3);
    checkFloat("LayerNormalization", inputs);
    const [x, ...affine] = inputs as [Value, ...Value[]];
    const axis = axisOf(inputs, attributes);
    for (const { shape } of affine)
      if (String(shape) !== String(x.shape.slice(axis)))
        refuse("LayerNormalization", inputs, `scale and bias must have the shape [${x.shape.slice(axis)}]`);
    const statistics = { dtype: x.dtype, shape: x.shape.map((size, i) => (i < axis ? size : 1)) };
    return [{ dtype: x.dtype, shape: x.shape }, statistics, statistics];
  },
  plan(inputs, _outputs, attributes) {
    const { shape } = inputs[0] as ValueInfo;
    const width = elementCount(shape.slice(axisOf(inputs, attributes)));
    const epsilon = numberOf(attributes, "epsilon", 1e-5);
    return (data, results) => {
      const [x, scale, bias] = data as [Float32Array, Float32Array, Float32Array?];
      const [y, means, inverses] = results as [Float32Array, Float32Array?, Float32Array?];
      for (let row = 0; row < y.length / width; row++) {
        let sum = 0;
        for (let i = 0; i < width; i++) sum += x[row * width + i] as number;
        const mean = sum / width;
        let squares = 0;
        for (let i = 0; i < width; i++) squares += ((x[row * width + i] as number) - mean) ** 2;
        const inverse = 1 / Math.sqrt(squares / width + epsilon);
        for (let i = 0; i < width; i++)
          y[row * width + i] =
            ((x[row * width + i] as number) - mean) * inverse * (scale[i] as number) + (bias?.[i] ?? 0);
        if (means) means[row] = mean;
        if (inverses) inverses[row] = inverse;
      }
    };
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [x, scale, bias] = inputs as [Value, Value, Value?];
    const dy = gradients[0];
    if (dy === undefined || gradients[1] || gradients[2])
      refuse("LayerNormalization", inputs, "has a derivative for its first output only");
    const axis = axisOf(inputs, attributes);
    const shape = x.shape.slice(axis);
    const count = elementCount(shape);
    const ones = builder.constant(float32(shape, new Float32Array(count).fill(1)));
    const [normal, , inverse] = builder.ops("LayerNormalization", [x, ones], attributes, 3) as [Value, Value, Value];
    const product = builder.op("Mul", [dy, normal]);
    const result: (Value | undefined)[] = [undefined];
    if (wanted[0]) {
      const axes = shape.map((_, i) => axis + i);
      const mean = (value: Value) => builder.op("ReduceMean", [value], { axes, keepdims: 1 });
      const along = mean(builder.op("Mul", [product, scale]));
      const scaled = builder.op("Mul", [dy, scale]);
      const centred = builder.op("Sub", [scaled, mean(scaled)]);
      const rest = builder.op("Sub", [centred, builder.op("Mul", [normal, along])]);
      result[0] = builder.op("Mul", [rest, inverse]);
    }
    result.push(wanted[1] ? reduceTo(builder, product, shape) : undefined);
    if (bias) result.push(wanted[2] ? reduceTo(builder, dy, shape) : undefined);
    return result;
  },
  flops: (inputs) => 8 * elementCount((inputs[0] as ValueInfo).shape),
};
