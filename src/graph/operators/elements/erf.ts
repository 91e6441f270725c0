// Erf: the Gauss error function; dx = dy 2/sqrt(pi) e^(-x^2).

import { erf as errorFunction } from "../../../core/numbers/math.ts";
import { unary } from "./elementwise.ts";

const twoOverRootPi = 1.1283791670955126;

export const erf = unary("Erf", errorFunction, (builder, x, _y, dy) => {
  const bell = builder.op("Exp", [builder.op("Neg", [builder.op("Mul", [x, x])])]);
  return builder.op("Mul", [builder.op("Mul", [dy, builder.scalar(twoOverRootPi)]), bell]);
});
