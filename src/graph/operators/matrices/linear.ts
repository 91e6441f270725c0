// Linear(x [.., in], weight, bias? [out]) {transposed = 0}: x weight + bias over the last axis. The weight is
// [in, out], or [out, in] when transposed = 1 (embedding tables and PyTorch's layout). Rows are flattened so
// that the forward and both gradients are one Gemm each.

import type { ValueInfo } from "../../model.ts";
import { checkArity, checkFloat, checkRank, numberOf, refuse } from "../check.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";
import { gemm } from "./gemm.ts";
import { productFlops } from "./matrix.ts";

function isTransposed(attributes: Attributes): boolean {
  return numberOf(attributes, "transposed", 0) === 1;
}

function rowsOf(builder: Builder, value: Value): Value {
  return builder.op("Reshape", [value], { shape: [-1, value.shape.at(-1) as number] });
}

function transposed(builder: Builder, matrix: Value): Value {
  return builder.op("Transpose", [matrix], { perm: [1, 0] });
}

export const linear: Operator = {
  type: "Linear",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("Linear", inputs, 2, 3);
    checkFloat("Linear", inputs);
    checkRank("Linear", inputs, 1, 2);
    const [x, weight, bias] = inputs as [Value, Value, Value?];
    const [inner, columns] = (isTransposed(attributes) ? weight.shape.toReversed() : weight.shape) as [number, number];
    if (x.shape.length < 2 || x.shape.at(-1) !== inner)
      refuse("Linear", inputs, `the last axis of the input must have the weight's size ${inner}`);
    if (bias && (bias.shape.length !== 1 || bias.shape[0] !== columns))
      refuse("Linear", inputs, `the bias must have the shape [${columns}]`);
    return [{ dtype: x.dtype, shape: [...x.shape.slice(0, -1), columns] }];
  },
  plan(inputs, outputs, attributes) {
    const flat = ({ name, dtype, shape }: ValueInfo) => {
      const width = shape.at(-1) as number;
      return { name, dtype, shape: [shape.reduce((product, size) => product * size, 1) / width, width] };
    };
    const [x, ...rest] = inputs as [ValueInfo, ...ValueInfo[]];
    return gemm.plan([flat(x), ...rest], outputs.map(flat), isTransposed(attributes) ? { transB: 1 } : {});
  },
  lower(builder, inputs, attributes) {
    const [x, weight, bias] = inputs as [Value, Value, Value?];
    const product = builder.op(
      "Gemm",
      bias ? [rowsOf(builder, x), weight, bias] : [rowsOf(builder, x), weight],
      isTransposed(attributes) ? { transB: 1 } : {},
    );
    return [builder.op("Reshape", [product], { shape: [...x.shape.slice(0, -1), product.shape[1] as number] })];
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [x, weight, bias] = inputs as [Value, Value, Value?];
    const dy = rowsOf(builder, gradients[0] as Value);
    const flipped = isTransposed(attributes);
    const dx = () => {
      const product = builder.op("Gemm", [dy, weight], flipped ? {} : { transB: 1 });
      return builder.op("Reshape", [product], { shape: x.shape });
    };
    // An explicit Transpose of the left operand runs faster than Gemm's transA.
    const dw = () =>
      flipped
        ? builder.op("Gemm", [transposed(builder, dy), rowsOf(builder, x)])
        : builder.op("Gemm", [transposed(builder, rowsOf(builder, x)), dy]);
    return [
      wanted[0] ? dx() : undefined,
      wanted[1] ? dw() : undefined,
      ...(bias ? [wanted[2] ? reduceTo(builder, dy, bias.shape) : undefined] : []),
    ];
  },
  flops: (inputs, outputs) =>
    productFlops((outputs[0] as ValueInfo).shape, (inputs[0] as ValueInfo).shape.at(-1) as number),
};
