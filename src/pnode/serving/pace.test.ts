// What is worth having under way, and worth guessing, as it follows from passes that came around.

import assert from "node:assert/strict";
import { test } from "node:test";
import { draftsMax, Pace } from "./pace.ts";

/** Two machines of 10 ms a pass that are so far from each other; a row more takes 1.5 ms on each. */
const tookMs = (hopMs: number, tokens: number) => 2 * (10 + hopMs) + 3 * (tokens - 1);

function paced(hopMs: number, seen: readonly number[]): Pace {
  const pace = new Pace();
  for (const tokens of seen) pace.observe(tokens, tookMs(hopMs, tokens), tokens <= 32);
  return pace;
}

test("nothing is guessed, and one pass is sent, before anything was measured", () => {
  const pace = new Pace();
  assert.equal(pace.inFlight(10), 1);
  assert.equal(pace.guesses(0.9, 10).count, 0);
});

test("what is far away is worth guesses and passes under way, also where no pass ever had few rows", () => {
  for (const seen of [
    [160, 1, 1, 5, 9],
    [160, 128, 8, 8, 8, 24],
    [256, 32, 32],
  ]) {
    const pace = paced(100, seen);
    assert.ok(pace.inFlight(10) >= 8, `${seen}`);
    assert.ok(pace.guesses(0.9, 10).count >= 4, `${seen}: ${pace.guesses(0.9, 10).count}`);
    assert.ok(pace.guesses(0.9, 10).count <= draftsMax);
    assert.equal(pace.guesses(0, 10).count, 0);
  }
});

test("the more requests of a pass guess, the fewer guesses pay", () => {
  const pace = paced(20, [160, 1, 9, 32]);
  const counts = [1, 4, 16, 32].map((together) => pace.guesses(0.8, 10, together).count);
  assert.deepEqual(
    counts.toSorted((a, b) => b - a),
    counts,
  );
  assert.ok((counts[0] as number) > 0);
  assert.equal(counts.at(-1), 0);
});

test("what a guess takes to find counts: a slow draft pays over long ways only, and fewer of its guesses", () => {
  const [near, far] = [paced(1, [160, 1, 9]), paced(100, [160, 1, 9])];
  assert.equal(near.guesses(0.8, 10, 1, 20).count, 0);
  const [slow, quick] = [far.guesses(0.8, 10, 1, 20), far.guesses(0.8, 10, 1, 2)];
  assert.ok(slow.count > 0 && slow.count <= quick.count, `${slow.count} and ${quick.count}`);
  assert.ok(slow.rate < quick.rate && quick.rate < far.guesses(0.8, 10).rate);
});

test("a way that becomes longer is noticed", () => {
  const pace = paced(1, [1, 1]);
  assert.ok(pace.inFlight(10) <= 3);
  for (let i = 0; i < 200; i++) pace.observe(1, tookMs(100, 1), true);
  assert.ok(pace.inFlight(10) >= 8);
});

test("passes that wait behind others are not taken for a longer way: now and then one is wanted alone", () => {
  const pace = new Pace();
  assert.ok(pace.wantsAlone);
  pace.observe(1, tookMs(1, 1), true);
  for (let i = 0; i < 255; i++) {
    assert.ok(!pace.wantsAlone);
    pace.observe(1, 90, false);
  }
  pace.observe(1, 90, false);
  assert.ok(pace.wantsAlone);
  assert.equal(pace.inFlight(10), 2);
  pace.observe(1, 22, true);
  assert.ok(!pace.wantsAlone);
});
