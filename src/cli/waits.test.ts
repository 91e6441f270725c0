import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { waitLines } from "./waits.ts";

const names = new Map([["p1", "birch"]]);
const wait = (vnode: string, reason: string, sinceSeconds = 0, untilSeconds = 0) => ({
  vnode,
  pnode: "p1",
  reason,
  sinceSeconds,
  untilSeconds,
});

describe("what waits", () => {
  it("is one sentence for one cause, however many wait for it", () => {
    const many = Array.from({ length: 58 }, (_, index) => wait(`block_${index}`, "cedar is lost", index));
    assert.deepEqual(waitLines(many, names), ["waits: 58 VNodes: cedar is lost (for 57 s)"]);
  });

  it("names machines, not ids, and no time that nobody took", () => {
    assert.deepEqual(waitLines([wait("head", "loads its weights")], names), [
      "waits: VNode head on PNode birch: loads its weights",
    ]);
    assert.deepEqual(waitLines([wait("", "no PNode is online", 480, 20)], names), [
      "waits: no PNode is online (for 8 min 0 s, 20 s left)",
    ]);
  });
});
