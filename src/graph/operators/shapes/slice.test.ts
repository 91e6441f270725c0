import { checkOperator } from "../oracle.test.ts";

checkOperator("Slice", [
  { inputs: [[4, 6]], attributes: { starts: [1], ends: [3], axes: [0] } },
  { inputs: [[4, 6]], attributes: { starts: [0, -3], ends: [4, 100], axes: [0, 1] } },
]);
