import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../../core/hash.ts";
import { isIdentityOf, roundRules, type SessionIdentity, sessionIdOf } from "./session.ts";
import { identityToWire, trainingFromWire, trainingToWire } from "./wire.ts";

const identity: SessionIdentity = {
  definition: sha256("definition"),
  dataset: sha256("dataset"),
  split: "train",
  validationSplit: "validation",
  steps: 99_999_999,
  batch: 12,
  microbatches: 4,
  seed: Number.MAX_SAFE_INTEGER,
  numerics: "portable",
  bits: 3,
  learningRate: { schedule: "cosine", base: 0.1 + 0.2, warmupSteps: 7, finalShare: 1 / 3 },
  clipNorm: 0.7,
  validateEvery: 5,
  validationMicrobatches: 2,
  initialState: sha256("state"),
};

test("settings that were told are the same settings, to the last bit and by their id", () => {
  const told = trainingFromWire(trainingToWire({ identity, policy: { checkpointEvery: 7, replicas: 1 } }), "s");
  assert.deepEqual(told, { identity, checkpointEvery: 7, assurance: "none" });
  const policy = { checkpointEvery: 7, replicas: 1, restAfter: 3 };
  assert.equal(trainingFromWire(trainingToWire({ identity, policy }), "s").restAfter, 3);
  assert.ok(isIdentityOf(sessionIdOf(identity, "net"), told.identity));
});

test("lanes and rounds that were told are those of the id, and nothing is added where there are none", () => {
  const laned: SessionIdentity = { ...identity, lanes: 2, sync: { every: 50, after: 200, rules: roundRules } };
  const told = trainingFromWire(trainingToWire({ identity: laned, policy: { checkpointEvery: 7, replicas: 1 } }), "s");
  assert.deepEqual(told.identity, laned);
  assert.notEqual(sessionIdOf(laned, "net"), sessionIdOf({ ...laned, lanes: 4 }, "net"));
  assert.notEqual(sessionIdOf(laned, "net"), sessionIdOf({ ...laned, sync: { every: 50, after: 100 } }, "net"));
  const { identity: plain } = trainingFromWire(
    trainingToWire({ identity, policy: { checkpointEvery: 7, replicas: 1 } }),
    "s",
  );
  assert.ok(!("lanes" in plain) && !("sync" in plain));
});

test("settings that nobody can work by are refused before anything is built on them", () => {
  const wire = identityToWire(identity);
  const rate = wire.learningRate;
  const wrong = [
    undefined,
    { ...wire, learningRate: undefined },
    { ...wire, steps: 0n },
    { ...wire, steps: 1n << 60n },
    { ...wire, batch: 0 },
    { ...wire, batch: 65_537, microbatches: 1 },
    { ...wire, microbatches: 5 },
    { ...wire, microbatches: 0 },
    { ...wire, seed: 1n << 60n },
    { ...wire, numerics: "analog" },
    { ...wire, lanes: 3 },
    { ...wire, lanes: 8 },
    { ...wire, lanes: 1_000 },
    { ...wire, syncEvery: 50, syncAfter: 200n },
    { ...wire, lanes: 2, syncEvery: 50, syncAfter: 0n },
    { ...wire, lanes: 2, syncEvery: 50, syncAfter: 1n << 60n },
    { ...wire, clipNorm: Number.NaN },
    { ...wire, clipNorm: -1 },
    { ...wire, validationMicrobatches: 0 },
    { ...wire, validationMicrobatches: 100_000 },
    { ...wire, learningRate: { ...rate, schedule: "zigzag" } },
    { ...wire, learningRate: { ...rate, base: Number.POSITIVE_INFINITY } },
    { ...wire, learningRate: { ...rate, finalShare: 2 } },
  ];
  for (const one of wrong)
    assert.throws(() => trainingFromWire({ identity: one, checkpointEvery: 1, assurance: "" }, "s"), {
      code: "data_loss",
      message: /^the settings of session s are not possible: /,
    });
  for (const checkpointEvery of [0, 1_001])
    assert.throws(
      () => trainingFromWire({ identity: wire, checkpointEvery, assurance: "" }, "s"),
      /checkpoint_every .* is \d+/,
    );
  assert.throws(
    () => trainingFromWire({ identity: { ...wire, dataset: "nothing" }, checkpointEvery: 1, assurance: "" }, "s"),
    /the dataset/,
  );
});
