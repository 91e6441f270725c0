import { checkOperator } from "../oracle.test.ts";

checkOperator("Identity", [{ inputs: [[2, 3, 4]] }]);
