import { checkForward } from "../oracle.test.ts";

checkForward("RotaryEmbedding", [
  {
    inputs: [
      [2, 2, 3, 4],
      [3, 2],
      [3, 2],
    ],
    attributes: { interleaved: 0, positions: [0] },
  },
  {
    inputs: [
      [2, 3, 6],
      [3, 3],
      [3, 3],
    ],
    attributes: { interleaved: 1, positions: [0] },
  },
]);
