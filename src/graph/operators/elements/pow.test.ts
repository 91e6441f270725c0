import { checkOperator } from "../oracle.test.ts";

checkOperator("Pow", [
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: 2 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: 3 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: 5 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: -1 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: -2 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: 0.5 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: -0.5 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: 1 } },
  { inputs: [{ shape: [2, 5], from: 0.5, to: 2 }], attributes: { exponent: 0 } },
]);
