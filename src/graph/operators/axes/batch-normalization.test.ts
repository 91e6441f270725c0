import { checkOperator } from "../oracle.test.ts";

checkOperator("BatchNormalization", [
  {
    inputs: [
      [2, 3, 2, 2],
      [3],
      [3],
      { shape: [3], gradient: false },
      { shape: [3], from: 0.5, to: 2, gradient: false },
    ],
  },
]);
