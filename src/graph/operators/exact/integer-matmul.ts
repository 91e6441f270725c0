// IntegerMatMul(a, b): stacks of matrices of whole numbers up to 2^21 in size, kept as floats. Sums of at most 256 products are whole
// numbers below 2^52, so that any order and any way of cutting them gives the same one; how it becomes a float is written below.
// Only engines of exact numerics have it (src/engine/exact).

import type { Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { inferProduct, type Product, productFlops, productOf } from "../matrices/matrix.ts";
import type { Operator, Value } from "../operator.ts";

const plain = { transA: false, transB: false, alpha: 1 };

/** Products that are added up exactly; what several of them give is added in order, rounded each time. */
export const integerDepth = 256;

const low = 2 ** 24;

/** A whole number as the sum of two floats: its upper part rounded, its lower 24 bits as they are. */
export function roundedInteger(sum: number): number {
  const upper = Math.floor(sum / low);
  return Math.fround(Math.fround(upper) * low + (sum - upper * low));
}

export const integerMatMul: Operator = {
  type: "IntegerMatMul",
  cheap: false,
  infer: (inputs) => [{ dtype: (inputs[0] as Value)?.dtype, shape: inferProduct("IntegerMatMul", inputs, plain) }],
  plan(inputs) {
    const found = productOf(inputs[0]?.shape as Shape, inputs[1]?.shape as Shape, plain)?.product as Product;
    const { rows, inner, columns, stackA, stackB } = found;
    return (data, results) => {
      const [a, b] = data as [Float32Array, Float32Array];
      const y = results[0] as Float32Array;
      const element = (fromA: number, fromB: number): number => {
        let result = 0;
        for (let block = 0; block < inner; block += integerDepth) {
          let sum = 0;
          for (let k = block; k < Math.min(inner, block + integerDepth); k++)
            sum += (a[fromA + k] as number) * (b[fromB + k * columns] as number);
          result = block === 0 ? roundedInteger(sum) : Math.fround(result + roundedInteger(sum));
        }
        return result;
      };
      for (let matrix = 0, at = 0; matrix < stackA.length; matrix++)
        for (let row = 0; row < rows; row++)
          for (let column = 0; column < columns; column++, at++)
            y[at] = element(
              ((stackA[matrix] as number) * rows + row) * inner,
              (stackB[matrix] as number) * inner * columns + column,
            );
    };
  },
  flops: (inputs, outputs) =>
    productFlops((outputs[0] as ValueInfo).shape, (inputs[0] as ValueInfo).shape.at(-1) as number),
};
