import { checkOperator } from "../oracle.test.ts";

checkOperator("HardSigmoid", [
  { inputs: [{ shape: [3, 7], from: -4, to: 4 }], attributes: { alpha: 0.25, beta: 0.5 } },
]);
