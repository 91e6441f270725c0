import { strict as assert } from "node:assert";
import { it } from "node:test";
import { Waits } from "./waits.ts";

function scene() {
  let nowMs = 0;
  const waits = new Waits({ monotonicMs: () => nowMs });
  return { waits, pass: (ms: number) => (nowMs += ms) };
}

it("counts from the first look on, and from when something came", () => {
  const { waits, pass } = scene();
  pass(1_000_000);
  assert.equal(waits.ms("a"), 0);
  for (let second = 1; second <= 60; second++) {
    pass(1_000);
    assert.equal(waits.ms("a"), 1_000 * second);
  }
  assert.equal(waits.ms("b"), 0, "another");
  waits.beginAgain("a");
  pass(1_000);
  assert.equal(waits.ms("a"), 1_000);
  waits.end("a");
  assert.equal(waits.ms("a"), 0);
});

it("does not count that it slept for an hour between two looks", () => {
  const { waits, pass } = scene();
  waits.ms("a");
  pass(1_000);
  assert.equal(waits.ms("a"), 1_000);
  pass(3_600_000);
  assert.ok(waits.ms("a") < 10_000);
});

it("counts for something that nobody asked about for a while as long as it looked at anything", () => {
  const { waits, pass } = scene();
  waits.ms("a");
  for (let second = 0; second < 600; second++) {
    pass(1_000);
    waits.look();
  }
  assert.equal(waits.ms("a"), 600_000);
});
