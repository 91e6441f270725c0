import { checkForward } from "../oracle.test.ts";

checkForward("TopMask", [
  { inputs: [[2, 3, 5]], attributes: { k: 2 } },
  { inputs: [{ shape: [2, 4], from: 1, to: 1 }], attributes: { k: 3 } },
]);
