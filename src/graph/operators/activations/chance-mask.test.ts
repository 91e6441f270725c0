import { checkOperator } from "../oracle.test.ts";

checkOperator("ChanceMask", [{ inputs: [[2, 3, 4], { shape: [2, 3, 4], gradient: false }] }]);
