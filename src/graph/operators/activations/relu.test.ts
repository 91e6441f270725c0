import { checkOperator } from "../oracle.test.ts";

checkOperator("Relu", [{ inputs: [{ shape: [3, 7], from: -2, to: 2 }] }]);
