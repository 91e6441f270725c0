// Relu: y = max(x, 0); the gradient passes where y > 0.

import { unary } from "../elements/elementwise.ts";

export const relu = unary(
  "Relu",
  (x) => Math.max(x, 0),
  (builder, _x, y, dy) => builder.op("Where", [builder.op("Greater", [y, builder.scalar(0)]), dy, builder.scalar(0)]),
);
