// The first 20 losses of synchronous lanes equal those of PyTorch's DistributedDataParallel on as many ranks within 1e-5, for
// the same weights and data. network/fixtures/make_lanes.py wrote PyTorch's.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { elementCount } from "../../core/tensor.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openEngine } from "../../engine/open.ts";
import { compileText } from "../../network/compile.ts";
import { field, type LossFixture, uniform } from "../../network/fixtures/fields.testing.ts";
import { train } from "../training-run.testing.ts";

const fixtures: Record<string, LossFixture> = JSON.parse(
  readFileSync(new URL("../../network/fixtures/lanes.json", import.meta.url), "utf8"),
);
const text = readFileSync(new URL("../../../examples/gpt-demo.yaml", import.meta.url), "utf8");

for (const lanes of [2, 4])
  test(`the demo GPT in ${lanes} lanes learns as in PyTorch on ${lanes} ranks`, async () => {
    const { batch, rate, parameters, losses } = fixtures[String(lanes)] as LossFixture;
    const plan = compileText(text);
    const weights = new Map(
      parameters.map(({ name, shape, center, spread }, i) => [
        name,
        Float32Array.from({ length: elementCount(shape) }, (_, at) => center + spread * (2 * uniform(i + 1, at) - 1)),
      ]),
    );
    const samples = batch / lanes;
    const engine = await openEngine("native");
    const run = await train(text, 1, openInlineExecutor(engine), {
      lanes,
      samples,
      weights,
      batches: {
        field: async (name, { step, micro }) => {
          const salt = (name === "inputs" ? 10_000 : 20_000) + (step % 4);
          return field(plan[name]!, samples, salt, micro * samples);
        },
      },
      schedule: {
        ...{ steps: losses.length, microbatches: lanes, validateEvery: 0, validationMicrobatches: 0 },
        checkpointEvery: losses.length,
      },
      learning: {
        ...{ seed: 1, clipNorm: 0 },
        learningRate: { schedule: "constant", base: rate, warmupSteps: 0, finalShare: 0 },
      },
    });
    const mean = (step: number) => {
      const inLanes = run.losses.slice(step * lanes, (step + 1) * lanes);
      return inLanes.reduce((sum, loss) => sum + loss, 0) / lanes;
    };
    for (const [step, expected] of losses.entries())
      assert.ok(Math.abs(mean(step) - expected) <= 1e-5 * expected, `step ${step}: ${mean(step)}, PyTorch ${expected}`);
    await engine.close();
  });
