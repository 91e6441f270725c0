import { checkOperator } from "../oracle.test.ts";

checkOperator("Unsqueeze", [{ inputs: [[2, 4]], attributes: { axes: [1, -1] } }]);
