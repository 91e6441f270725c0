// Equal: a == b as bool, with broadcasting.

import { comparison } from "./elementwise.ts";

export const equal = comparison("Equal", (a, b) => a === b);
