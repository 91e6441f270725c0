import { checkOperator } from "../oracle.test.ts";

checkOperator("Flatten", [{ inputs: [[2, 3, 4]] }, { inputs: [[2, 3, 4]], attributes: { axis: 2 } }]);
