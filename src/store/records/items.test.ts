import assert from "node:assert/strict";
import { it } from "node:test";
import { compareKeys } from "./items.ts";

it("compares keys as their UTF-8 bytes compare", () => {
  const pieces = ["", "a", "b", "/", "é", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\u{10000}", "\u{10fffe}"];
  const keys = pieces.flatMap((first) => pieces.map((second) => first + second));
  for (const a of keys)
    for (const b of keys) {
      const expected = Buffer.compare(Buffer.from(a), Buffer.from(b));
      assert.equal(Math.sign(compareKeys(a, b)), expected, `${JSON.stringify(a)} and ${JSON.stringify(b)}`);
    }
});
