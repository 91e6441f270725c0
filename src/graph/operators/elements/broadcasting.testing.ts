// Pairs of shapes by which an operator of two inputs shows that it broadcasts: alike, a row, one on each side, a scalar, both stretched.

import type { OperatorCase } from "../oracle.test.ts";

const pairs = [
  [
    [2, 3, 4],
    [2, 3, 4],
  ],
  [[2, 3, 4], [4]],
  [
    [3, 1],
    [2, 3, 4],
  ],
  [[2, 3, 4], []],
  [
    [2, 1, 4],
    [1, 3, 1],
  ],
];

export const broadcastCases: readonly OperatorCase[] = pairs.map((inputs) => ({ inputs }));
