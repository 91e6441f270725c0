// SwiGlu(x [.., 2n]) -> [.., n]: the first half of the last axis times silu of the second half (the gate).

import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, refuse } from "../check.ts";
import type { Builder, Operator, Value } from "../operator.ts";
import { sigmoidOf } from "./sigmoid.ts";

function halves(builder: Builder, x: Value): [Value, Value] {
  const half = (x.shape.at(-1) as number) / 2;
  return builder.ops("Split", [x], { axis: x.shape.length - 1, split: [half, half] }, 2) as [Value, Value];
}

export const swiGlu: Operator = {
  type: "SwiGlu",
  cheap: true,
  infer(inputs) {
    checkArity("SwiGlu", inputs, 1);
    checkFloat("SwiGlu", inputs);
    const { dtype, shape } = inputs[0] as Value;
    const width = shape.at(-1) ?? 1;
    if (width % 2 !== 0) refuse("SwiGlu", inputs, "the last axis must be even: it holds values and gates");
    return [{ dtype, shape: [...shape.slice(0, -1), width / 2] }];
  },
  plan(_inputs, outputs) {
    const half = (outputs[0] as ValueInfo).shape.at(-1) as number;
    return (data, results) => {
      const [x, y] = [data[0] as Float32Array, results[0] as Float32Array];
      for (let i = 0; i < y.length; i++) {
        const at = Math.floor(i / half) * 2 * half + (i % half);
        const gate = x[at + half] as number;
        y[i] = (x[at] as number) * gate * sigmoidOf(gate);
      }
    };
  },
  lower(builder, inputs) {
    const [value, gate] = halves(builder, inputs[0] as Value);
    return [builder.op("Mul", [value, builder.op("Mul", [gate, builder.op("Sigmoid", [gate])])])];
  },
  vjp({ builder, inputs, gradients }) {
    const [x] = inputs as [Value];
    const dy = gradients[0] as Value;
    const [value, gate] = halves(builder, x);
    const s = builder.op("Sigmoid", [gate]);
    const silu = builder.op("Mul", [gate, s]);
    const slope = builder.op("Add", [s, builder.op("Mul", [silu, builder.op("Sub", [builder.scalar(1), s])])]);
    const dvalue = builder.op("Mul", [dy, silu]);
    const dgate = builder.op("Mul", [builder.op("Mul", [dy, value]), slope]);
    return [builder.op("Concat", [dvalue, dgate], { axis: x.shape.length - 1 })];
  },
  flops: (_inputs, outputs) => 6 * (outputs[0]?.shape ?? []).reduce((product, size) => product * size, 1),
};
