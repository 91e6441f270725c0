import { checkOperator } from "../oracle.test.ts";

checkOperator("Exp", [{ inputs: [[2, 3, 4]] }]);
