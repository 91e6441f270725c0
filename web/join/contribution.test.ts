import assert from "node:assert/strict";
import { test } from "node:test";
import { Contribution, durationText, piecesText } from "./contribution.ts";

function memory(content?: string) {
  let kept: string | null = content ?? null;
  return {
    getItem: () => kept,
    setItem: (_: string, value: string) => {
      kept = value;
    },
  };
}

test("visits add up, whatever a worker counts from", () => {
  const kept = memory();
  const first = new Contribution(kept);
  first.seen({ pieces: 3, computedMs: 1_000 });
  first.seen({ pieces: 5, computedMs: 1_500 });
  first.seen({ pieces: 5, computedMs: 1_500 });
  // Left and lent again: the next worker begins at 0.
  first.seen({ pieces: 1, computedMs: 100 });
  assert.deepEqual(first.total, { pieces: 6, computedMs: 1_600 });
  const second = new Contribution(kept);
  second.seen({ pieces: 4, computedMs: 400 });
  assert.deepEqual(second.total, { pieces: 10, computedMs: 2_000 });
});

test("what is kept and not ours counts as nothing, and so does a browser that keeps nothing", () => {
  assert.deepEqual(new Contribution(memory("{}")).total, { pieces: 0, computedMs: 0 });
  assert.deepEqual(new Contribution(memory("<")).total, { pieces: 0, computedMs: 0 });
});

test("numbers are told as people say them", () => {
  assert.equal(piecesText(1), "1 piece of work");
  assert.equal(durationText(59_400), "59 s");
  assert.equal(durationText(61_000), "1 min 1 s");
  assert.equal(durationText(2 * 3_600_000 + 60_000), "2 h 1 min");
});
