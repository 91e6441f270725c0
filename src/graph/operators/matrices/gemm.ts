// Gemm(a, b, c?) {transA, transB, alpha, beta}: alpha a b + beta c for matrices; c broadcasts.

import { type Shape, sameShape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { broadcastIndex, broadcastShape, checkArity, checkFloat, checkRank, numberOf, refuse } from "../check.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Attributes, Builder, Operator, Value } from "../operator.ts";
import { type Product, productFlops, productKernel, productOf } from "./matrix.ts";

function formOf(attributes: Attributes) {
  return {
    transA: numberOf(attributes, "transA", 0) === 1,
    transB: numberOf(attributes, "transB", 0) === 1,
    alpha: numberOf(attributes, "alpha", 1),
  };
}

export const gemm: Operator = {
  type: "Gemm",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("Gemm", inputs, 2, 3);
    checkFloat("Gemm", inputs);
    checkRank("Gemm", inputs, 0, 2);
    checkRank("Gemm", inputs, 1, 2);
    const [a, b, c] = inputs as [Value, Value, Value?];
    const found = productOf(a.shape, b.shape, formOf(attributes));
    if (found === undefined) refuse("Gemm", inputs, "the inner sizes must agree");
    if (c && !sameShape(broadcastShape(c.shape, found.shape) ?? [], found.shape))
      refuse("Gemm", inputs, `the third input must broadcast to [${found.shape}]`);
    return [{ dtype: a.dtype, shape: found.shape }];
  },
  plan(inputs, outputs, attributes) {
    const [a, b, c] = inputs as [ValueInfo, ValueInfo, ValueInfo?];
    const multiply = productKernel(productOf(a.shape, b.shape, formOf(attributes))?.product as Product);
    if (c === undefined) return multiply;
    const index = broadcastIndex(c.shape, outputs[0]?.shape as Shape);
    const beta = numberOf(attributes, "beta", 1);
    return (data, results) => {
      multiply(data, results);
      const y = results[0] as Float32Array;
      const added = data[2] as Float32Array;
      for (let i = 0; i < y.length; i++) y[i] = (y[i] as number) + beta * (added[index[i] as number] as number);
    };
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [a, b, c] = inputs as [Value, Value, Value?];
    const dy = gradients[0] as Value;
    const { transA, transB, alpha } = formOf(attributes);
    // An explicit Transpose of the left operand runs faster than transA.
    const product = (x: Value, transX: boolean, y: Value, transY: boolean) =>
      builder.op("Gemm", [transX ? transposed(builder, x) : x, y], {
        ...(transY && { transB: 1 }),
        ...(alpha !== 1 && { alpha }),
      });
    const da = () => (transA ? product(b, transB, dy, true) : product(dy, false, b, !transB));
    const db = () => (transB ? product(dy, true, a, transA) : product(a, !transA, dy, false));
    const beta = numberOf(attributes, "beta", 1);
    const dc = () => {
      const sum = reduceTo(builder, dy, (c as Value).shape);
      return beta === 1 ? sum : builder.op("Mul", [sum, builder.scalar(beta)]);
    };
    return [wanted[0] ? da() : undefined, wanted[1] ? db() : undefined, wanted[2] ? dc() : undefined];
  },
  flops(inputs, outputs, attributes) {
    const inner = (inputs[0] as ValueInfo).shape.at(formOf(attributes).transA ? 0 : 1) as number;
    return productFlops((outputs[0] as ValueInfo).shape, inner);
  },
};

function transposed(builder: Builder, matrix: Value): Value {
  return builder.op("Transpose", [matrix], { perm: [1, 0] });
}
