import { checkOperator } from "../oracle.test.ts";

checkOperator("GatherElements", [
  { inputs: [[3, 4], { shape: [3, 1], ints: [3, 0, 2] }], attributes: { axis: 1 } },
  { inputs: [[3, 4], { shape: [2, 4], ints: [0, 1, 2, 0, 0, 2, 2, 1] }], attributes: { axis: 0 } },
]);
