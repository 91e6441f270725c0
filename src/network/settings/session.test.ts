import assert from "node:assert/strict";
import { test } from "node:test";
import { bits } from "../../core/bits.ts";
import type { Sha256 } from "../../core/ids.ts";
import { differences, learningRateAt, type SessionIdentity, sessionIdOf } from "./session.ts";

test("the learning rate warms up in a line and falls along half a cosine", () => {
  const schedule = {
    steps: 110,
    learningRate: { schedule: "cosine", base: 2, warmupSteps: 10, finalShare: 0.1 },
  } as const;
  assert.equal(learningRateAt(schedule, 0), 0.2);
  assert.equal(learningRateAt(schedule, 9), 2);
  assert.equal(learningRateAt(schedule, 10), 2);
  assert.ok(Math.abs(learningRateAt(schedule, 60) - 1.1) < 1e-12, "half of the way down");
  assert.ok(Math.abs(learningRateAt(schedule, 110) - 0.2) < 1e-12, "ends at its final share");
  assert.ok(Math.abs(learningRateAt(schedule, 500) - 0.2) < 1e-12, "and stays there");
  for (let step = 11; step < 110; step++)
    assert.ok(learningRateAt(schedule, step) < learningRateAt(schedule, step - 1));
});

const identity: SessionIdentity = {
  definition: "ab".repeat(32) as Sha256,
  dataset: "cd".repeat(32) as Sha256,
  split: "train",
  validationSplit: "validation",
  steps: 100,
  batch: 32,
  microbatches: 4,
  seed: 1,
  numerics: "native",
  bits,
  learningRate: { schedule: "constant", base: 1e-3, warmupSteps: 0, finalShare: 0 },
  clipNorm: 0,
  validateEvery: 0,
  validationMicrobatches: 0,
  initialState: "",
};

test("sessions that differ in anything have different ids, and the difference is named", () => {
  const other = { ...identity, steps: 200, learningRate: { ...identity.learningRate, base: 0.5 } };
  assert.notEqual(sessionIdOf(identity, "run"), sessionIdOf(other, "run"));
  assert.deepEqual(differences(identity, other), ["steps was 100, now 200", "learningRate.base was 0.001, now 0.5"]);
  assert.deepEqual(differences(identity, { ...identity }), []);
});
