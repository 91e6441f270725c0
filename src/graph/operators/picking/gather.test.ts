import { checkOperator } from "../oracle.test.ts";

checkOperator("Gather", [{ inputs: [[5, 3], { shape: [2, 2], ints: [4, 0, 4, 2] }] }]);
