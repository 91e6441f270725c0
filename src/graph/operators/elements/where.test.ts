import { checkOperator } from "../oracle.test.ts";

checkOperator("Where", [
  { inputs: [{ shape: [2, 3], bools: [1, 0, 1, 0, 0, 1] }, [2, 3], [3]] },
  { inputs: [{ shape: [3], bools: [1, 0, 1] }, [2, 1, 3], []] },
]);
