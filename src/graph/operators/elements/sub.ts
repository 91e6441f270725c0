// Sub: z = a - b, with broadcasting.

import { binary } from "./elementwise.ts";

export const sub = binary("Sub", (a, b) => a - b, [
  (_builder, _a, _b, dz) => dz,
  (builder, _a, _b, dz) => builder.op("Neg", [dz]),
]);
