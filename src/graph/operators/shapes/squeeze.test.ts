import { checkOperator } from "../oracle.test.ts";

checkOperator("Squeeze", [{ inputs: [[2, 1, 4, 1]] }, { inputs: [[2, 1, 4, 1]], attributes: { axes: [1] } }]);
