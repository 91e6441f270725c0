// The first 20 losses equal PyTorch's within 1e-4, for the same weights and data. fixtures/make.py wrote PyTorch's.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { elementCount } from "../../core/tensor.ts";
import { openEngine } from "../../engine/open.ts";
import { compileText } from "../compile.ts";
import { field, type LossFixture, uniform } from "../fixtures/fields.testing.ts";
import { LocalTrainer } from "./trainer.testing.ts";

const fixtures: Record<string, LossFixture> = JSON.parse(
  readFileSync(new URL("../fixtures/losses.json", import.meta.url), "utf8"),
);

const definitions: Record<string, string> = {
  mlp: example("mlp"),
  conv: example("conv"),
  "gpt-demo": example("gpt-demo"),
  t1: transformerYaml({ ...t1, blocks: 2, heads: 2, headDim: 16, context: 16, vocabulary: 97, dropout: 0 }),
};

function example(name: string): string {
  return readFileSync(new URL(`../../../examples/${name}.yaml`, import.meta.url), "utf8");
}

for (const [name, text] of Object.entries(definitions))
  test(`${name} learns as in PyTorch`, async () => {
    const fixture = fixtures[name]!;
    const plan = compileText(text);
    const weights = new Map(
      fixture.parameters.map(({ name, shape, center, spread }, i) => [
        name,
        Float32Array.from({ length: elementCount(shape) }, (_, at) => center + spread * (2 * uniform(i + 1, at) - 1)),
      ]),
    );
    const parameters = plan.vnodes.flatMap((vnode) => vnode.parameters);
    assert.deepEqual(parameters.map((parameter) => parameter.name).sort(), [...weights.keys()].sort());
    const engine = await openEngine("native");
    const trainer = await LocalTrainer.open({ engine, plan, microbatch: fixture.batch, rate: fixture.rate, weights });
    for (const [step, expected] of fixture.losses.entries()) {
      const sample = {
        inputs: field(plan.inputs!, fixture.batch, 10_000 + (step % 4)),
        labels: field(plan.labels!, fixture.batch, 20_000 + (step % 4)),
      };
      const loss = await trainer.step([sample]);
      assert.ok(Math.abs(loss - expected) <= 1e-4 * expected, `step ${step}: ${loss}, PyTorch ${expected}`);
    }
    await engine.close();
  });
