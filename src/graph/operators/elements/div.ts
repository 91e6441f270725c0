// Div: z = a / b, with broadcasting.

import { binary } from "./elementwise.ts";

export const div = binary("Div", (a, b) => a / b, [
  (builder, _a, b, dz) => builder.op("Div", [dz, b]),
  (builder, a, b, dz) => {
    const quotient = builder.op("Div", [builder.op("Mul", [dz, a]), builder.op("Mul", [b, b])]);
    return builder.op("Neg", [quotient]);
  },
]);
