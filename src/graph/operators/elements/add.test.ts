import { checkOperator } from "../oracle.test.ts";

checkOperator("Add", [
  {
    inputs: [
      [2, 3, 4],
      [2, 3, 4],
    ],
  },
  { inputs: [[2, 3, 4], [4]] },
  {
    inputs: [
      [3, 1],
      [2, 3, 4],
    ],
  },
  { inputs: [[2, 3, 4], []] },
  {
    inputs: [
      [2, 1, 4],
      [1, 3, 1],
    ],
  },
]);
