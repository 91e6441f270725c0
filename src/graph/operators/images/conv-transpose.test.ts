import { checkOperator } from "../oracle.test.ts";

checkOperator("ConvTranspose", [
  {
    inputs: [
      [2, 3, 3, 3],
      [3, 2, 3, 3],
    ],
    attributes: { strides: [2, 2], pads: [1, 1, 1, 1], output_padding: [1, 0] },
  },
  {
    inputs: [
      [1, 4, 3, 3],
      [4, 2, 2, 2],
    ],
    attributes: { group: 2 },
  },
]);
