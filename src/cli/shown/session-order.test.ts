import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrder } from "./session-order.ts";

test("what is under way comes first; of what is over the newest are shown and the rest is counted", () => {
  const session = (id: string, status: string, createdWallMs: bigint) => ({ id, status, createdWallMs });
  const sessions = [
    session("a", "done", 1n),
    session("b", "running", 2n),
    session("c", "failed", 3n),
    session("d", "suspended", 4n),
    session("e", "done", 5n),
  ];
  const { shown, more } = inOrder(sessions, 2);
  assert.deepEqual([shown.map(({ id }) => id).join(""), more], ["dbec", 1]);
  assert.equal(inOrder(sessions, 9).more, 0);
});
