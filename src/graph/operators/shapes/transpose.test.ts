import { checkOperator } from "../oracle.test.ts";

checkOperator("Transpose", [
  { inputs: [[2, 3, 4]] },
  { inputs: [[2, 3, 4]], attributes: { perm: [1, 2, 0] } },
  { inputs: [[2, 1, 4]], attributes: { perm: [1, 0, 2] } },
]);
