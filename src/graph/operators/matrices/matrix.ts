// What MatMul, FusedMatMul and Gemm share: the shape rule for stacks of matrices and one plain product.

import { elementCount, type Shape } from "../../../core/tensor.ts";
import { broadcastIndex, broadcastShape, checkArity, checkFloat, refuse } from "../check.ts";
import type { Kernel, Value } from "../operator.ts";

export interface Product {
  readonly rows: number;
  readonly inner: number;
  readonly columns: number;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly alpha: number;
  /** Which matrix of each operand every result uses. */
  readonly stackA: Int32Array;
  readonly stackB: Int32Array;
}

interface Form {
  readonly transA: boolean;
  readonly transB: boolean;
  readonly alpha: number;
}

/** Sizes of `a @ b` for stacks that broadcast; undefined where they do not fit. */
export function productOf(a: Shape, b: Shape, form: Form): { shape: Shape; product: Product } | undefined {
  if (a.length < 2 || b.length < 2) return undefined;
  const [a0, a1] = a.slice(-2) as [number, number];
  const [b0, b1] = b.slice(-2) as [number, number];
  const [rows, inner] = form.transA ? [a1, a0] : [a0, a1];
  const [innerB, columns] = form.transB ? [b1, b0] : [b0, b1];
  const stack = broadcastShape(a.slice(0, -2), b.slice(0, -2));
  if (stack === undefined || inner !== innerB) return undefined;
  const stackA = broadcastIndex(a.slice(0, -2), stack);
  const stackB = broadcastIndex(b.slice(0, -2), stack);
  return { shape: [...stack, rows, columns], product: { rows, inner, columns, ...form, stackA, stackB } };
}

export function inferProduct(type: string, inputs: readonly Value[], form: Form): Shape {
  checkArity(type, inputs, 2);
  checkFloat(type, inputs);
  const [a, b] = inputs as [Value, Value];
  const found = productOf(a.shape, b.shape, form);
  if (found === undefined)
    refuse(type, inputs, `the inner sizes and leading axes must agree${form.transB ? " (B is transposed)" : ""}`);
  return found.shape;
}

/** Sums in double precision over the inner index in order. */
export function productKernel(product: Product): Kernel {
  const { rows, inner, columns, transA, transB, alpha, stackA, stackB } = product;
  const sums = new Float64Array(columns);
  const [rowStep, innerStep] = transA ? [1, rows] : [inner, 1];
  const [innerStepB, columnStep] = transB ? [1, inner] : [columns, 1];
  return (inputs, outputs) => {
    const [a, b] = inputs as [Float32Array, Float32Array];
    const y = outputs[0] as Float32Array;
    for (let matrix = 0, at = 0; matrix < stackA.length; matrix++) {
      const startA = (stackA[matrix] as number) * rows * inner;
      const startB = (stackB[matrix] as number) * inner * columns;
      for (let i = 0; i < rows; i++) {
        sums.fill(0);
        for (let k = 0; k < inner; k++) {
          const factor = a[startA + i * rowStep + k * innerStep] as number;
          let from = startB + k * innerStepB;
          for (let j = 0; j < columns; j++, from += columnStep)
            sums[j] = (sums[j] as number) + factor * (b[from] as number);
        }
        for (let j = 0; j < columns; j++) y[at++] = alpha * (sums[j] as number);
      }
    }
  };
}

export function productFlops(output: Shape, inner: number): number {
  return 2 * elementCount(output) * inner;
}
