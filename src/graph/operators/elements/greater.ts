// Greater: a > b as bool, with broadcasting.

import { comparison } from "./elementwise.ts";

export const greater = comparison("Greater", (a, b) => a > b);
