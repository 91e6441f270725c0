import assert from "node:assert/strict";
import { it } from "node:test";
import { pnodeName } from "./names.ts";

it("a PNode has its owner's name for it, or its id if nobody knows it", () => {
  const mirror = { get: (key: string) => (key === "pnode/p1" ? { name: "maple" } : undefined) };
  assert.deepEqual([pnodeName(mirror as never, "p1"), pnodeName(mirror as never, "p2")], ["maple", "p2"]);
});
