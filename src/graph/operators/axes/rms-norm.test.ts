import { checkOperator } from "../oracle.test.ts";

checkOperator("RmsNorm", [{ inputs: [[2, 3, 8], [8]] }, { inputs: [[4, 6], [6]], attributes: { epsilon: 0.01 } }]);
