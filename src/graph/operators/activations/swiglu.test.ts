import { checkOperator } from "../oracle.test.ts";

checkOperator("SwiGlu", [{ inputs: [[2, 3, 8]] }]);
