// Tanh: y = tanh x; dx = dy (1 - y^2).

import { tanh as hyperbolicTangent } from "../../../core/numbers/math.ts";
import { unary } from "../elements/elementwise.ts";

export const tanh = unary("Tanh", hyperbolicTangent, (builder, _x, y, dy) =>
  builder.op("Mul", [dy, builder.op("Sub", [builder.scalar(1), builder.op("Mul", [y, y])])]),
);
