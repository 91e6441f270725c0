import assert from "node:assert/strict";
import { test } from "node:test";
import { keysOf } from "./keys.ts";

test("keys are told apart, also when several come at once", () => {
  assert.deepEqual(keysOf("q"), ["q"]);
  assert.deepEqual(keysOf("\x1b[A\x1b[B/bé\x7f\r"), ["up", "down", "/", "b", "é", "backspace", "enter"]);
  assert.deepEqual(keysOf("\x1b"), ["escape"]);
  assert.deepEqual(keysOf("\x03"), ["interrupt"]);
});

test("what nobody knows is left out", () => {
  assert.deepEqual(keysOf("\x1b[24~x\x00"), ["x"]);
});
