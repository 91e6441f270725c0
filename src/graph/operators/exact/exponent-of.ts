// ExponentOf: the whole number n with 2^n <= |x| < 2^(n + 1), held between -100 and 100. Only engines of exact numerics have it
// (src/engine/exact).

import { unary } from "../elements/elementwise.ts";

export const exponentMax = 100;

const word = new DataView(new ArrayBuffer(4));

export const exponentOf = unary("ExponentOf", (x) => {
  word.setFloat32(0, x);
  const exponent = ((word.getInt32(0) >>> 23) & 255) - 127;
  return Math.max(-exponentMax, Math.min(exponentMax, exponent));
});
