import { checkOperator } from "../oracle.test.ts";

checkOperator("FusedMatMul", [
  {
    inputs: [
      [2, 3, 4],
      [2, 4, 5],
    ],
    attributes: { alpha: 0.5 },
  },
  {
    inputs: [
      [2, 3, 4],
      [2, 5, 4],
    ],
    attributes: { transB: 1 },
  },
  {
    inputs: [
      [2, 4, 3],
      [2, 4, 5],
    ],
    attributes: { transA: 1, alpha: 2 },
  },
  {
    inputs: [
      [2, 4, 3],
      [2, 5, 4],
    ],
    attributes: { transA: 1, transB: 1 },
  },
]);
