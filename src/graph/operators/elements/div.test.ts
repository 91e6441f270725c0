import { checkOperator } from "../oracle.test.ts";

checkOperator("Div", [
  { inputs: [[2, 3, 4], { shape: [2, 3, 4], from: 0.5, to: 2 }] },
  { inputs: [[2, 3, 4], { shape: [3, 1], from: 0.5, to: 2 }] },
  { inputs: [[3], { shape: [2, 3], from: -2, to: -0.5 }] },
]);
