import { checkOperator } from "../oracle.test.ts";

checkOperator("Gemm", [
  {
    inputs: [
      [3, 4],
      [4, 5],
    ],
  },
  { inputs: [[3, 4], [5, 4], [5]], attributes: { transB: 1, alpha: 0.5 } },
  {
    inputs: [
      [4, 3],
      [4, 5],
      [3, 5],
    ],
    attributes: { transA: 1, beta: 2 },
  },
  {
    inputs: [
      [4, 3],
      [5, 4],
      [3, 1],
    ],
    attributes: { transA: 1, transB: 1 },
  },
]);
