import { checkOperator } from "../oracle.test.ts";

checkOperator("LogSoftmax", [
  { inputs: [[2, 3, 4]] },
  { inputs: [[2, 3, 4]], attributes: { axis: 1 } },
  { inputs: [{ shape: [2, 5], from: -30, to: 30 }], runtimeTolerance: 1e-4 },
]);
