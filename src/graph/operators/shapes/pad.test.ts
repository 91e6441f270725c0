import { checkOperator } from "../oracle.test.ts";

checkOperator("Pad", [
  { inputs: [[2, 3]], attributes: { pads: [1, 0, 0, 2] } },
  { inputs: [[2, 3]], attributes: { pads: [0, 1, 1, 0], value: 1.5 } },
]);
