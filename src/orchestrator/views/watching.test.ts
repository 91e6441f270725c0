import assert from "node:assert/strict";
import { test } from "node:test";
import { Backlog, Watchers } from "./watching.ts";

test("whoever watches and does not read is kept the newest for, and no more than so many", () => {
  const backlog = new Backlog<number>(3, [1, 2, 3, 4]);
  assert.deepEqual(backlog.take(), [2, 3, 4]);
  for (let number = 0; number < 1_000; number++) backlog.add([number]);
  assert.deepEqual(backlog.take(), [997, 998, 999]);
  assert.deepEqual(backlog.take(), []);
  backlog.add([7]);
  assert.deepEqual(backlog.take(), [7]);
});

test("an address has so many watchers at once, and others have theirs", () => {
  const watchers = new Watchers();
  const leaves = Array.from({ length: 64 }, () => watchers.enter("192.0.2.1"));
  assert.throws(() => watchers.enter("192.0.2.1"), /too many are watching/);
  watchers.enter("192.0.2.2");
  leaves[0]?.();
  watchers.enter("192.0.2.1");
});
