import assert from "node:assert/strict";
import { test } from "node:test";
import { microbatchesInFlightMax } from "../../network/memory.ts";
import { Pace } from "./pace.ts";

/** Steps of one microbatch each, on its way for `wayMs` and computed in `forwardMs` and `backwardMs`. */
function travelled(pace: Pace, ways: readonly number[], forwardMs = 10, backwardMs = 20): Pace {
  let nowMs = 0;
  for (const wayMs of ways) {
    pace.computed("forward", forwardMs);
    pace.sent(0, nowMs);
    nowMs += wayMs;
    pace.returned(0, nowMs);
    pace.complete(0);
    pace.computed("backward", backwardMs);
  }
  return pace;
}

test("a VNode that was never answered asks for no window of its own", () => {
  const pace = new Pace();
  pace.computed("forward", 5);
  pace.sent(0, 0);
  assert.equal(pace.window, 0);
});

test("the window is what is computed while one microbatch travels, and one more", () => {
  assert.equal(travelled(new Pace(), [300]).window, 11);
  assert.equal(travelled(new Pace(), [30]).window, 2);
});

test("microbatches that stood in line behind a step's first do not widen it", () => {
  const pace = travelled(new Pace(), [90]);
  for (const [microbatch, wayMs] of [400, 900].entries()) {
    pace.sent(microbatch + 1, 0);
    pace.returned(microbatch + 1, wayMs);
    pace.complete(microbatch + 1);
  }
  assert.equal(pace.window, 4);
});

test("passes that stood in line for a worker do not narrow it", () => {
  const pace = travelled(new Pace(), [90]);
  pace.computed("forward", 500);
  pace.computed("backward", 500);
  assert.equal(pace.window, 4);
});

test("a way that became longer is noticed within some steps", () => {
  const pace = travelled(new Pace(), [30]);
  assert.equal(travelled(pace, new Array(40).fill(150)).window, 6);
});

test("of several receivers the last gradient counts", () => {
  const pace = new Pace();
  pace.computed("forward", 10);
  pace.sent(0, 0);
  pace.returned(0, 5);
  pace.returned(0, 100);
  pace.complete(0);
  pace.computed("backward", 10);
  assert.equal(pace.window, 6);
});

test("gradients that were here before anything was sent say nothing about the way", () => {
  const pace = new Pace();
  pace.computed("forward", 10);
  pace.returned(0, 0);
  pace.sent(0, 1);
  pace.complete(0);
  pace.computed("backward", 10);
  assert.equal(pace.window, 0);
});

test("it never asks for more than memory was reserved for", () => {
  assert.equal(travelled(new Pace(), [100_000]).window, microbatchesInFlightMax);
});
