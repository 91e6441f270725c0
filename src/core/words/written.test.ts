import assert from "node:assert/strict";
import { test } from "node:test";
import { written } from "./written.ts";

test("whatever JSON holds can stand in a sentence", () => {
  assert.equal(written("a text"), "a text");
  assert.equal(written(7), "7");
  assert.equal(written(undefined), "nothing");
  const hostile: unknown = JSON.parse('{"toString": 1, "valueOf": [], "constructor": null}');
  assert.throws(() => String(hostile), TypeError);
  assert.equal(written(hostile), '{"toString":1,"valueOf":[],"constructor":null}');
  assert.equal(written("x".repeat(1_000)).length, 80);
});
