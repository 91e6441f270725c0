// PowerOfTwo: 2^x for whole numbers x from -126 to 127, kept as floats. Only engines of exact numerics have it (src/engine/exact).

import { unary } from "../elements/elementwise.ts";

const word = new DataView(new ArrayBuffer(4));

export const powerOfTwo = unary("PowerOfTwo", (x) => {
  word.setInt32(0, (Math.trunc(x) + 127) << 23);
  return word.getFloat32(0);
});
