import { checkOperator } from "../oracle.test.ts";

checkOperator("ReduceMax", [
  { inputs: [[2, 3, 4]], attributes: { axes: [1], keepdims: 1 } },
  { inputs: [[2, 3, 4]], attributes: { axes: [0, 2], keepdims: 0 } },
  { inputs: [[2, 3, 4]], attributes: { keepdims: 0 } },
  { inputs: [[2, 3, 4]], attributes: { axes: [-1], keepdims: 0 } },
]);
