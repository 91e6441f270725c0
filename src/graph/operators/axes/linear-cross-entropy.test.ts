import { checkOperator } from "../oracle.test.ts";

checkOperator("LinearCrossEntropy", [
  { inputs: [[4, 3], [5, 3], { shape: [4], ints: [0, 4, 2, 2] }] },
  { inputs: [[2, 3, 3], [5, 3], { shape: [2, 3], ints: [0, -1, 2, 3, 1, 1] }], attributes: { chunkRows: 4 } },
  { inputs: [[2, 3], [2500, 3], { shape: [2], ints: [7, 2400] }] },
]);
