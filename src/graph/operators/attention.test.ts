import { checkOperator } from "./oracle.test.ts";

checkOperator("Attention", [
  {
    inputs: [
      [2, 2, 4, 3],
      [2, 2, 4, 3],
      [2, 2, 4, 3],
    ],
  },
  {
    inputs: [
      [2, 4, 3],
      [2, 4, 3],
      [2, 4, 3],
    ],
    attributes: { causal: 0 },
  },
  {
    inputs: [
      [2, 4, 3, 2],
      [2, 2, 3, 2],
      [2, 2, 3, 2],
    ],
    attributes: { scale: 0.3 },
  },
  {
    inputs: [
      [1, 2, 2, 3],
      [1, 2, 5, 3],
      [1, 2, 5, 3],
    ],
  },
]);
