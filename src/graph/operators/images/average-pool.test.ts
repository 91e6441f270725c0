import { checkOperator } from "../oracle.test.ts";

checkOperator("AveragePool", [
  { inputs: [[2, 3, 4, 4]], attributes: { kernel_shape: [2, 2], strides: [2, 2] } },
  { inputs: [[1, 2, 5, 6]], attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] } },
  { inputs: [[1, 2, 5, 5]], attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1], count_include_pad: 1 } },
]);
