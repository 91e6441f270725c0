import { checkOperator } from "../oracle.test.ts";

checkOperator("Embedding", [
  { inputs: [[5, 3], { shape: [2, 2], ints: [4, 0, 4, 2] }] },
  { inputs: [[5, 3], { shape: [4], ints: [1, 1, 1, 3] }] },
]);
