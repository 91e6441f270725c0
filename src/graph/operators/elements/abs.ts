// Abs: y = |x|; dx = dy sign(x).

import { unary } from "./elementwise.ts";

export const abs = unary("Abs", Math.abs, (builder, x, _y, dy) =>
  builder.op("Where", [builder.op("Less", [x, builder.scalar(0)]), builder.op("Neg", [dy]), dy]),
);
