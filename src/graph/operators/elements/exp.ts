// Exp: y = e^x; dx = dy y.

import { exp as exponential } from "../../../core/numbers/math.ts";
import { unary } from "./elementwise.ts";

export const exp = unary("Exp", exponential, (builder, _x, y, dy) => builder.op("Mul", [dy, y]));
