import { checkForward } from "../oracle.test.ts";

checkForward("ScatterElements", [
  { inputs: [[3, 4], { shape: [3, 1], ints: [3, 0, 2] }, [3, 1]], attributes: { axis: 1, reduction: "add" } },
  { inputs: [[6], { shape: [4], ints: [5, 5, 0, 5] }, [4]], attributes: { axis: 0, reduction: "add" } },
]);
