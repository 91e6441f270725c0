import { checkForward } from "../oracle.test.ts";

checkForward("FusedGelu", [{ inputs: [{ shape: [3, 7], from: -4, to: 4 }] }]);
