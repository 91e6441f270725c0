import { checkOperator } from "../oracle.test.ts";

checkOperator("MatMul", [
  {
    inputs: [
      [3, 4],
      [4, 5],
    ],
  },
  {
    inputs: [
      [2, 3, 4],
      [4, 5],
    ],
  },
  {
    inputs: [
      [2, 3, 4],
      [2, 4, 5],
    ],
  },
  {
    inputs: [
      [2, 1, 3, 4],
      [3, 4, 2],
    ],
  },
]);
