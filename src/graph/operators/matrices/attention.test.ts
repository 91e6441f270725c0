import { checkOperator } from "../oracle.test.ts";

checkOperator("Attention", [
  {
    inputs: [
      [2, 2, 4, 3],
      [2, 2, 4, 3],
      [2, 2, 4, 3],
    ],
  },
  {
    inputs: [
      [2, 4, 3],
      [2, 4, 3],
      [2, 4, 3],
    ],
    attributes: { causal: 0 },
  },
  {
    inputs: [
      [2, 4, 3, 2],
      [2, 2, 3, 2],
      [2, 2, 3, 2],
    ],
    attributes: { scale: 0.3 },
  },
  {
    inputs: [
      [1, 2, 2, 3],
      [1, 2, 5, 3],
      [1, 2, 5, 3],
    ],
  },
  // A window smaller than the sequence, scores bent by a cap, rows of bias for each head.
  {
    inputs: [
      [1, 2, 6, 3],
      [1, 2, 6, 3],
      [1, 2, 6, 3],
    ],
    attributes: { window: 3 },
  },
  {
    inputs: [{ shape: [2, 2, 4, 3], from: -3, to: 3 }, { shape: [2, 1, 4, 3], from: -3, to: 3 }, [2, 1, 4, 3]],
    attributes: { cap: 2, scale: 0.8, window: 2 },
  },
  {
    inputs: [[2, 4, 3, 2], [2, 2, 3, 2], [2, 2, 3, 2], { shape: [4, 3], gradient: false }],
  },
  {
    inputs: [[1, 2, 3, 2], [1, 2, 3, 2], [1, 2, 3, 2], { shape: [2, 3], gradient: false }],
    attributes: { cap: 1.5 },
  },
]);
