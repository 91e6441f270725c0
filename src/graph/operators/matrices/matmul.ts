// MatMul: stacks of matrices, leading axes broadcast.

import type { Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Builder, Operator, Value } from "../operator.ts";
import { inferProduct, type Product, productFlops, productKernel, productOf } from "./matrix.ts";

const plain = { transA: false, transB: false, alpha: 1 };

export const matmul: Operator = {
  type: "MatMul",
  cheap: false,
  infer: (inputs) => [{ dtype: (inputs[0] as Value)?.dtype, shape: inferProduct("MatMul", inputs, plain) }],
  plan: (inputs) =>
    productKernel(productOf(inputs[0]?.shape as Shape, inputs[1]?.shape as Shape, plain)?.product as Product),
  vjp({ builder, inputs, gradients, wanted }) {
    const [a, b] = inputs as [Value, Value];
    const dy = gradients[0] as Value;
    if (b.shape.length === 2) return matrixGradients(builder, a, b, dy, wanted);
    return [
      wanted[0] ? reduceTo(builder, builder.op("FusedMatMul", [dy, b], { transB: 1 }), a.shape) : undefined,
      wanted[1] ? reduceTo(builder, builder.op("MatMul", [swapLast(builder, a), dy]), b.shape) : undefined,
    ];
  },
  flops: (inputs, outputs) =>
    productFlops((outputs[0] as ValueInfo).shape, (inputs[0] as ValueInfo).shape.at(-1) as number),
};

/** A matrix as the right operand: rows are flattened so that each gradient is one Gemm. */
function matrixGradients(builder: Builder, a: Value, b: Value, dy: Value, wanted: readonly boolean[]) {
  const [inner, columns] = b.shape as [number, number];
  const rowsOf = (value: Value, width: number) => builder.op("Reshape", [value], { shape: [-1, width] });
  const dy2 = rowsOf(dy, columns);
  const da = wanted[0]
    ? builder.op("Reshape", [builder.op("Gemm", [dy2, b], { transB: 1 })], { shape: a.shape })
    : undefined;
  const db = wanted[1]
    ? builder.op("Gemm", [builder.op("Transpose", [rowsOf(a, inner)], { perm: [1, 0] }), dy2])
    : undefined;
  return [da, db];
}

/** Exchanges the last two axes. */
export function swapLast(builder: Builder, value: Value): Value {
  const axes = value.shape.map((_, axis) => axis);
  const rank = axes.length;
  return builder.op("Transpose", [value], { perm: [...axes.slice(0, rank - 2), rank - 1, rank - 2] });
}
