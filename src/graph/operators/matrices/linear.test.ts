import { checkOperator } from "../oracle.test.ts";

checkOperator("Linear", [
  { inputs: [[2, 3, 4], [4, 5], [5]] },
  {
    inputs: [
      [2, 3, 4],
      [5, 4],
    ],
    attributes: { transposed: 1 },
  },
  {
    inputs: [
      [3, 4],
      [4, 5],
    ],
  },
  { inputs: [[2, 4], [5, 4], [5]], attributes: { transposed: 1 } },
]);
