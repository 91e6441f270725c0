import { checkOperator } from "../oracle.test.ts";

checkOperator("Rope", [
  { inputs: [[2, 2, 3, 4], { shape: [3, 2], gradient: false }, { shape: [3, 2], gradient: false }] },
  {
    inputs: [[2, 3, 6], { shape: [3, 3], gradient: false }, { shape: [3, 3], gradient: false }],
    attributes: { interleaved: 1 },
  },
]);
