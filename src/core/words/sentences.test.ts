import assert from "node:assert/strict";
import { it } from "node:test";
import { threeDigits } from "./sentences.ts";

it("numbers read as one would write them", () => {
  assert.deepEqual([1894.2, 12345.6, 4.5678, 0.012345, 0].map(threeDigits), ["1,890", "12,300", "4.57", "0.0123", "0"]);
});
