// Sqrt: y = sqrt(x); dx = dy / (2 y).

import { unary } from "./elementwise.ts";

export const sqrt = unary("Sqrt", Math.sqrt, (builder, _x, y, dy) =>
  builder.op("Div", [builder.op("Mul", [dy, builder.scalar(0.5)]), y]),
);
