import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../core/errors.ts";
import type { Sha256 } from "../core/ids.ts";
import { differences, learningRateAt, parseSettings, type SessionIdentity, sessionIdOf } from "./session.ts";

const least = { network: "mlp", dataset: "digits" };

test("settings that are absent, zero or empty get their defaults", () => {
  const { identity, policy } = parseSettings({
    ...least,
    steps: 0n,
    batch: 0,
    numerics: "",
    $typeName: "dcnr.v1.SessionSettings",
  });
  assert.equal(identity.steps, 100);
  assert.equal(identity.batch % identity.microbatches, 0);
  assert.equal(identity.numerics, "native");
  assert.deepEqual(identity.learningRate, { schedule: "constant", base: 1e-3, warmupSteps: 0, finalShare: 0 });
  assert.deepEqual(policy, { checkpointEvery: 10, replicas: 1 });
});

const wrong: readonly [Record<string, unknown>, string][] = [
  [{ dataset: "digits" }, 'setting "network" is missing: name the network to train with'],
  [{ ...least, steps: -1 }, 'setting "steps" must be a whole number from 1 to 1000000000, found "-1"'],
  [{ ...least, steps: 1.5 }, 'setting "steps" must be a whole number from 1 to 1000000000, found "1.5"'],
  [{ ...least, batch: 10, microbatches: 3 }, 'setting "microbatches" must divide batch 10, found 3'],
  [
    { ...least, numerics: "nativ" },
    'setting "numerics" must be one of native, portable, reference, found "nativ", did you mean "native"?',
  ],
  [
    { ...least, learningRate: { base: Number.NaN } },
    'setting "learningRate.base" must be a number from 1e-12 to 100, found "NaN"',
  ],
  [
    { ...least, learningRate: { warmup: 3 } },
    'setting learningRate: "warmup" is unknown; known are schedule, base, warmupSteps, finalShare',
  ],
  [{ ...least, step: 3 }, 'setting "step" is unknown, did you mean "steps"?'],
  [
    { ...least, steps: 10, learningRate: { warmupSteps: 11 } },
    'setting "learningRate.warmupSteps" is 11, more than steps 10',
  ],
  [{ ...least, steps: 10, epochs: 1 }, 'settings "steps" and "epochs" are both given: give one of them'],
];

for (const [settings, sentence] of wrong)
  test(`refused: ${sentence}`, () => {
    assert.throws(
      () => parseSettings(settings),
      (thrown: Error) => {
        assert.equal(thrown.message, sentence);
        return hasCode(thrown, "invalid_argument");
      },
    );
  });

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
  ...parseSettings(least).identity,
  definition: "ab".repeat(32) as Sha256,
  dataset: "cd".repeat(32) as Sha256,
  operatorSet: "dcnr-1",
  initialState: "",
};

test("sessions that differ in anything have different ids, and the difference is named", () => {
  const other = { ...identity, steps: 200, learningRate: { ...identity.learningRate, base: 0.5 } };
  assert.notEqual(sessionIdOf(identity, "run"), sessionIdOf(other, "run"));
  assert.deepEqual(differences(identity, other), ["steps was 100, now 200", "learningRate.base was 0.001, now 0.5"]);
  assert.deepEqual(differences(identity, { ...identity }), []);
});
