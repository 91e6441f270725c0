import { checkOperator } from "../oracle.test.ts";

checkOperator("Silu", [{ inputs: [{ shape: [3, 7], from: -2, to: 2 }] }]);
