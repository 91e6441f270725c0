// Add: z = a + b, with broadcasting.

import { binary } from "./elementwise.ts";

export const add = binary("Add", (a, b) => a + b, [(_builder, _a, _b, dz) => dz, (_builder, _a, _b, dz) => dz]);
