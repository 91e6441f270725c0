import { checkOperator } from "../oracle.test.ts";

checkOperator("SoftmaxCrossEntropy", [
  { inputs: [[4, 5], { shape: [4], ints: [0, 4, 2, 2] }] },
  { inputs: [[2, 2, 5], { shape: [2, 2], ints: [0, -1, 2, -100] }] },
  { inputs: [[2, 5], { shape: [2], ints: [-1, -1] }] },
]);
