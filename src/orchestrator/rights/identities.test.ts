import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeyId } from "../../core/ids.ts";
import { shown } from "./identities.ts";

const keys = (...names: string[]) => names as KeyId[];
const record = (...names: string[]) => ({
  id: names[0] as KeyId,
  keys: names.map((key, at) => ({ key: key as KeyId, fromWallMs: at })),
});

test("the first key needs no record, and the newest that was written down is the present one", () => {
  assert.equal(shown(undefined, keys("a"), 5).kind, "current");
  assert.equal(shown(record("a", "b"), keys("a", "b"), 5).kind, "current");
});

test("a newer one is written down behind the present one, with the time at which that ended", () => {
  assert.deepEqual(shown(undefined, keys("a", "b"), 5), {
    kind: "newer",
    next: {
      id: "a",
      keys: [
        { key: "a", fromWallMs: 0, untilWallMs: 5 },
        { key: "b", fromWallMs: 5 },
      ],
    },
  });
  const later = shown(record("a", "b"), keys("a", "b", "c", "d"), 9);
  assert.ok(later.kind === "newer");
  assert.deepEqual(
    later.next.keys.map(({ key, untilWallMs }) => `${key} ${untilWallMs}`),
    ["a undefined", "b 9", "c 9", "d undefined"],
  );
});

test("whoever shows a key that was replaced, or another heir of it, is refused", () => {
  for (const late of [keys("a"), keys("a", "x"), keys("a", "x", "y")])
    assert.equal(shown(record("a", "b"), late, 5).kind, "replaced");
  assert.equal(shown(record("a", "b", "c"), keys("a", "b"), 5).kind, "replaced");
  assert.equal(shown(record("a", "b", "c"), keys("a", "b", "x"), 5).kind, "replaced");
});
