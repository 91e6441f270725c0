import { checkOperator } from "../oracle.test.ts";

checkOperator("Concat", [
  {
    inputs: [
      [2, 3],
      [2, 1],
      [2, 2],
    ],
    attributes: { axis: 1 },
  },
  {
    inputs: [
      [1, 3],
      [2, 3],
    ],
    attributes: { axis: 0 },
  },
]);
