// Less: a < b as bool, with broadcasting.

import { comparison } from "./elementwise.ts";

export const less = comparison("Less", (a, b) => a < b);
