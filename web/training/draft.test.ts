import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { SessionSettingsSchema } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { draftOf, settingsOf } from "./draft.ts";

const base = create(SessionSettingsSchema, {
  network: "mlp",
  dataset: "mnist",
  steps: 300n,
  batch: 64,
  microbatches: 8,
  seed: 7n,
  clipNorm: 2,
  epochs: 0,
  learningRate: { schedule: "cosine", base: 0.01, warmupSteps: 5n },
});

test("a draft of a session that is not changed asks for the same session", () => {
  const settings = settingsOf(base, draftOf(base, ["gpt", "mlp"], ["mnist"]));
  assert.deepEqual(settings, base);
});

test("what was changed is asked for, and what goes with it does not stay behind", () => {
  const draft = { ...draftOf(base, ["mlp"], ["mnist"]), batch: "6", rate: "0.5", seed: "8" };
  const settings = settingsOf(base, draft);
  assert.equal(settings.batch, 6);
  assert.equal(settings.microbatches, 0, "pieces of another batch need not divide this one");
  assert.equal(settings.learningRate?.base, 0.5);
  assert.equal(settings.learningRate?.schedule, "cosine");
  assert.equal(settings.clipNorm, 2);
  assert.equal(settings.seed, 8n);
});

test("another network begins with usual settings, and names that are gone are not asked for", () => {
  const draft = draftOf(base, ["gpt"], ["books"]);
  assert.deepEqual([draft.network, draft.dataset], ["gpt", "books"]);
  assert.equal(settingsOf(base, draft).clipNorm, 0);
});

test("without a session the form is filled all the same", () => {
  const draft = draftOf(create(SessionSettingsSchema), ["gpt"], ["books"]);
  assert.deepEqual([draft.steps, draft.batch, draft.rate, draft.seed], ["200", "32", "0.001", "1"]);
});
