import { checkOperator } from "../oracle.test.ts";

checkOperator("Clip", [
  { inputs: [[3, 7]], attributes: { min: -0.5, max: 0.5 } },
  { inputs: [[3, 7]], attributes: { max: 0.25 } },
  { inputs: [[3, 7]], attributes: { min: 0 } },
]);
