import { checkOperator } from "../oracle.test.ts";

checkOperator("Neg", [{ inputs: [[2, 3, 4]] }]);
