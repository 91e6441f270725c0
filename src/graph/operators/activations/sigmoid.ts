// Sigmoid: y = 1 / (1 + e^-x); dx = dy y (1 - y).

import { exp } from "../../../core/numbers/math.ts";
import { unary } from "../elements/elementwise.ts";

/** Never overflows: the exponential is taken of a negative number. */
export function sigmoidOf(x: number): number {
  if (x >= 0) return 1 / (1 + exp(-x));
  const power = exp(x);
  return power / (1 + power);
}

export const sigmoid = unary("Sigmoid", sigmoidOf, (builder, _x, y, dy) => {
  const slope = builder.op("Mul", [y, builder.op("Sub", [builder.scalar(1), y])]);
  return builder.op("Mul", [dy, slope]);
});
