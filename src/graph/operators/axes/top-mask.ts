// TopMask(x) {k}: 0 at the k largest of the last axis, -1e9 elsewhere; of equal ones the first count. Added to x in
// front of a softmax it leaves the softmax of the chosen alone. It is a choice, so it passes no gradient.

import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, numberOf, refuse } from "../check.ts";
import { onnxTypeOf } from "../elements/cast.ts";
import type { Operator, Value } from "../operator.ts";

/** Far below any score, yet finite. */
const maskValue = -1e9;

export const topMask: Operator = {
  type: "TopMask",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("TopMask", inputs, 1);
    checkFloat("TopMask", inputs);
    const [{ dtype, shape }] = inputs as [Value];
    const k = numberOf(attributes, "k", 1);
    if (shape.length < 1 || !Number.isInteger(k) || k < 1 || k > (shape.at(-1) as number))
      refuse("TopMask", inputs, `k = ${k} must be from 1 to the size of the last axis`);
    return [{ dtype, shape }];
  },
  plan(inputs, _outputs, attributes) {
    const size = (inputs[0] as ValueInfo).shape.at(-1) as number;
    const k = numberOf(attributes, "k", 1);
    return (data, results) => {
      const [x, y] = [data[0] as Float32Array, results[0] as Float32Array];
      for (let row = 0; row < y.length; row += size)
        for (let i = 0; i < size; i++) {
          let ahead = 0;
          for (let j = 0; j < size; j++) {
            const [mine, other] = [x[row + i] as number, x[row + j] as number];
            if (other > mine || (other === mine && j < i)) ahead++;
          }
          y[row + i] = ahead < k ? 0 : maskValue;
        }
    };
  },
  /** Every entry is compared with every other: how many are ahead of it? */
  lower(builder, inputs, attributes) {
    const [x] = inputs as [Value];
    const size = x.shape.at(-1) as number;
    const mine = builder.op("Reshape", [x], { shape: [...x.shape, 1] });
    const others = builder.op("Reshape", [x], { shape: [...x.shape.slice(0, -1), 1, size] });
    const larger = builder.op("Cast", [builder.op("Greater", [others, mine])], { to: onnxTypeOf(x.dtype) });
    const equal = builder.op("Cast", [builder.op("Equal", [others, mine])], { to: onnxTypeOf(x.dtype) });
    const earlier = new Float32Array(size * size);
    for (let i = 0; i < size; i++) earlier.fill(1, i * size, i * size + i);
    const first = builder.op("Mul", [
      equal,
      builder.constant({ dtype: "float32", shape: [size, size], data: earlier }),
    ]);
    const ahead = builder.op("ReduceSum", [builder.op("Add", [larger, first])], {
      axes: [x.shape.length],
      keepdims: 0,
    });
    const behind = builder.op("Greater", [ahead, builder.scalar(numberOf(attributes, "k", 1) - 0.5)]);
    return [builder.op("Mul", [builder.op("Cast", [behind], { to: onnxTypeOf(x.dtype) }), builder.scalar(maskValue)])];
  },
  vjp: () => [undefined],
  flops: (inputs) => 3 * ((inputs[0]?.shape.at(-1) ?? 1) * (inputs[0]?.shape ?? []).reduce((all, one) => all * one, 1)),
};
