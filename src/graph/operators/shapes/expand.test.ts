import { checkOperator } from "../oracle.test.ts";

checkOperator("Expand", [
  { inputs: [[3, 1]], attributes: { shape: [2, 3, 4] } },
  { inputs: [[1, 3, 1]], attributes: { shape: [2, 1, 4] } },
]);
