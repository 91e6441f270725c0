import { checkForward } from "../oracle.test.ts";

checkForward("Cast", [
  { inputs: [{ shape: [3, 7], from: -3, to: 3 }], attributes: { to: 6 } },
  { inputs: [{ shape: [4], ints: [-1, 0, 2, 3] }], attributes: { to: 1 } },
  { inputs: [{ shape: [4], ints: [-1, 0, 2, 3] }], attributes: { to: 9 } },
]);
