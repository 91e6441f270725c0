import { checkOperator } from "../oracle.test.ts";

checkOperator("Sum", [
  {
    inputs: [
      [2, 3],
      [2, 3],
      [2, 3],
    ],
  },
  { inputs: [[2, 3]] },
]);
