import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../core/hash.ts";
import { isIdentityOf, type SessionIdentity, sessionIdOf } from "./session.ts";
import { identityFromWire, identityToWire } from "./wire.ts";

const identity: SessionIdentity = {
  definition: sha256("definition"),
  dataset: sha256("dataset"),
  split: "train",
  validationSplit: "validation",
  steps: 2 ** 40 + 1,
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
  const told = identityFromWire(identityToWire(identity), "s");
  assert.deepEqual(told, identity);
  assert.ok(isIdentityOf(sessionIdOf(identity, "net"), told));
});

test("settings that nobody can work by are refused before anything is built on them", () => {
  const wire = identityToWire(identity);
  const wrong = [
    undefined,
    { ...wire, learningRate: undefined },
    { ...wire, steps: 0n },
    { ...wire, steps: 1n << 60n },
    { ...wire, batch: 0 },
    { ...wire, microbatches: 5 },
    { ...wire, numerics: "analog" },
    { ...wire, learningRate: { schedule: "zigzag", base: 1, warmupSteps: 0n, finalShare: 0 } },
  ];
  for (const one of wrong) assert.throws(() => identityFromWire(one, "s"), { code: "data_loss" });
  assert.throws(() => identityFromWire({ ...wire, dataset: "nothing" }, "s"), /the dataset/);
});
