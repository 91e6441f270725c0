import { checkOperator } from "../oracle.test.ts";

checkOperator("Conv", [
  { inputs: [[2, 3, 5, 5], [4, 3, 3, 3], [4]] },
  {
    inputs: [
      [2, 3, 6, 5],
      [4, 3, 3, 2],
    ],
    attributes: { strides: [2, 2], pads: [1, 1, 1, 1] },
  },
  { inputs: [[2, 4, 6, 6], [6, 2, 3, 3], [6]], attributes: { group: 2, pads: [1, 0, 1, 0], strides: [2, 1] } },
  {
    inputs: [
      [1, 2, 7, 7],
      [2, 2, 3, 3],
    ],
    attributes: { dilations: [2, 2] },
  },
  {
    inputs: [
      [1, 2, 6, 6],
      [2, 2, 3, 3],
    ],
    attributes: { auto_pad: "SAME_UPPER", strides: [2, 2] },
  },
]);
