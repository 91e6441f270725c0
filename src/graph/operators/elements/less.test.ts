import { checkForward } from "../oracle.test.ts";

checkForward("Less", [
  {
    inputs: [
      [3, 7],
      [3, 7],
    ],
  },
  { inputs: [[3, 7], [7]] },
]);
