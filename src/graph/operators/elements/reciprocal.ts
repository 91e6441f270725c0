// Reciprocal: y = 1 / x; dx = -dy y^2.

import { unary } from "./elementwise.ts";

export const reciprocal = unary(
  "Reciprocal",
  (x) => 1 / x,
  (builder, _x, y, dy) => builder.op("Neg", [builder.op("Mul", [dy, builder.op("Mul", [y, y])])]),
);
