import { checkOperator } from "../oracle.test.ts";

checkOperator("Dropout", [{ inputs: [[2, 3, 4]] }]);
