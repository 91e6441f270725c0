import { checkOperator } from "../oracle.test.ts";

checkOperator("LeakyRelu", [{ inputs: [[3, 7]], attributes: { alpha: 0.3 } }]);
