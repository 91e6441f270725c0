import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { SessionSettingsSchema } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { differences, flat, spokenName } from "./differences.ts";

const settings = (init: Parameters<typeof create<typeof SessionSettingsSchema>>[1]) =>
  create(SessionSettingsSchema, init);

test("runs with the same settings do not differ", () => {
  const one = { network: "mlp", steps: 300n, learningRate: { base: 0.01 } };
  assert.deepEqual(differences([settings(one), settings(one), settings(one)]), []);
});

test("each setting in which any two differ is told, with what it is in each, nested and missing ones too", () => {
  const found = differences([
    settings({ network: "mlp", batch: 32, learningRate: { base: 0.01 } }),
    settings({ network: "mlp", batch: 64, learningRate: { base: 0.01, warmupSteps: 5n } }),
    undefined,
  ]);
  assert.deepEqual(Object.fromEntries(found.map(({ name, values }) => [name, values])), {
    network: ["mlp", "mlp", ""],
    batch: ["32", "64", ""],
    "learningRate.base": ["0.01", "0.01", ""],
    "learningRate.warmupSteps": ["", "5", ""],
  });
});

test("names and large numbers are read as they are", () => {
  assert.equal(flat(settings({ seed: 2n ** 53n + 1n })).get("seed"), "9007199254740993");
  assert.equal(spokenName("learningRate.warmupSteps"), "learning rate: warmup steps");
});
