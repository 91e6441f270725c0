import { checkForward } from "../oracle.test.ts";

checkForward("Equal", [
  {
    inputs: [
      [3, 7],
      [3, 7],
    ],
  },
  { inputs: [[3, 7], [7]] },
]);
