import { checkOperator } from "../oracle.test.ts";

checkOperator("Split", [
  { inputs: [[2, 6]], attributes: { axis: 1, split: [1, 3, 2] }, outputs: 3, differentiated: 3 },
  { inputs: [[2, 6]], attributes: { axis: -1, split: [4, 2] }, outputs: 2, differentiated: 1 },
]);
