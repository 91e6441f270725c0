// A product of matrices by whole numbers: each row of the left and each column of the right one is scaled by a power of two so that its
// largest element has 21 bits, rounded, multiplied exactly, and scaled back.

import type { Value } from "../../graph/builder.ts";
import type { Arithmetic, RawBuilder } from "./arithmetic.ts";

/** With the sign 22 bits: nearly what a float has, and sums of 256 products stay below 2^52. */
const operandBits = 21;

/** Beyond it scaling back could overflow on the way; what is larger makes the result infinite or NaN. */
const exponentMax = 60;

export function product(builder: RawBuilder, math: Arithmetic, a: Value, b: Value): Value {
  const left = whole(builder, math, a, a.shape.length - 1);
  const right = whole(builder, math, b, b.shape.length - 2);
  const exact = builder.raw("IntegerMatMul", [left.numbers, right.numbers]);
  return math.plain(math.times(math.times(exact, left.unit), right.unit));
}

/** x is `numbers` times `unit`, which is one for each row along `axis`. */
function whole(builder: RawBuilder, math: Arithmetic, x: Value, axis: number): { numbers: Value; unit: Value } {
  const largest = builder.raw("ReduceMax", [math.abs(x)], { axes: [axis], keepdims: 1 });
  const exponent = math.held(math.exponentOf(largest), -exponentMax, exponentMax);
  const unit = math.powerOfTwo(math.sub(exponent, operandBits - 1));
  const fits = math.less(largest, 2 ** (exponentMax + 1));
  return {
    numbers: math.rounded(math.times(x, math.powerOfTwo(math.sub(operandBits - 1, exponent)))),
    unit: math.where(fits, unit, Number.POSITIVE_INFINITY),
  };
}
