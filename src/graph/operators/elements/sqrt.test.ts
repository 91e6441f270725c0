import { checkOperator } from "../oracle.test.ts";

checkOperator("Sqrt", [{ inputs: [{ shape: [2, 5], from: 0.5, to: 2 }] }]);
