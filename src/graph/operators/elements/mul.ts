// Mul: z = a b, with broadcasting.

import { binary } from "./elementwise.ts";

export const mul = binary("Mul", (a, b) => a * b, [
  (builder, _a, b, dz) => builder.op("Mul", [dz, b]),
  (builder, a, _b, dz) => builder.op("Mul", [dz, a]),
]);
