import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pass } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Shared } from "./shared.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

test("what somebody holds is made once, and failures are not remembered", () => {
  const shared = new Shared<string, { name: string }>();
  assert.throws(() => shared.get("a", () => assert.fail("not yet")), /not yet/);
  const first = shared.get("a", () => ({ name: "a" }));
  assert.equal(
    shared.get("a", () => assert.fail("made twice")),
    first,
  );
  assert.notEqual(
    shared.get("b", () => ({ name: "b" })),
    first,
  );
});

test("what nobody holds is forgotten with its key", async () => {
  const shared = new Shared<number, { content: Uint8Array }>();
  for (let key = 0; key < 100; key++) shared.get(key, () => ({ content: new Uint8Array(1_000) }));
  assert.equal(shared.size, 100);
  for (let round = 0; round < 200 && shared.size > 0; round++) {
    await pass(1);
    collect();
  }
  assert.equal(shared.size, 0);
  assert.equal(shared.get(7, () => ({ content: new Uint8Array(3) })).content.length, 3);
});
