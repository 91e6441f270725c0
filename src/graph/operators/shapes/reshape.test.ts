import { checkOperator } from "../oracle.test.ts";

checkOperator("Reshape", [
  { inputs: [[2, 3, 4]], attributes: { shape: [6, 4] } },
  { inputs: [[2, 3, 4]], attributes: { shape: [0, -1] } },
]);
