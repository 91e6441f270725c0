import { checkOperator } from "../oracle.test.ts";

checkOperator("Reciprocal", [{ inputs: [{ shape: [2, 5], from: 0.5, to: 2 }] }]);
