// Log: y = ln x; dx = dy / x.

import { log as logarithm } from "../../../core/numbers/math.ts";
import { unary } from "./elementwise.ts";

export const log = unary("Log", logarithm, (builder, x, _y, dy) => builder.op("Div", [dy, x]));
