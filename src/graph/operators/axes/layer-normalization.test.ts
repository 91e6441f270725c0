import { checkOperator } from "../oracle.test.ts";

checkOperator("LayerNormalization", [
  { inputs: [[2, 3, 8], [8], [8]] },
  { inputs: [[4, 6], [6]], attributes: { epsilon: 0.001 } },
  {
    inputs: [
      [2, 3, 4],
      [3, 4],
      [3, 4],
    ],
    attributes: { axis: 1 },
  },
]);
