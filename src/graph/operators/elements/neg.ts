// Neg: y = -x.

import { unary } from "./elementwise.ts";

export const neg = unary(
  "Neg",
  (x) => -x,
  (builder, _x, _y, dy) => builder.op("Neg", [dy]),
);
