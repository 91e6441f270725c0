import { checkOperator } from "../oracle.test.ts";

checkOperator("GlobalAveragePool", [{ inputs: [[2, 3, 4, 5]] }]);
