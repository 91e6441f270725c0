import assert from "node:assert/strict";
import { it } from "node:test";
import { pnodeName, threeDigits } from "./sentences.ts";

it("numbers read as one would write them", () => {
  assert.deepEqual([1894.2, 12345.6, 4.5678, 0.012345, 0].map(threeDigits), ["1,890", "12,300", "4.57", "0.0123", "0"]);
});

it("a PNode has its owner's name for it, or its id if nobody knows it", () => {
  const mirror = { get: (key: string) => (key === "pnode/p1" ? { name: "maple" } : undefined) };
  assert.deepEqual([pnodeName(mirror as never, "p1"), pnodeName(mirror as never, "p2")], ["maple", "p2"]);
});
