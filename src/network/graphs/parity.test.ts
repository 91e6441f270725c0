// The first 20 losses equal PyTorch's within 1e-4, for the same weights and data. fixtures/make.py wrote PyTorch's.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { t1, transformerYaml } from "../../../examples/generate.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import { openEngine } from "../../engine/open.ts";
import { compileText } from "../compile.ts";
import type { DataPlan } from "../plan.ts";
import { LocalTrainer } from "./trainer.testing.ts";

interface Fixture {
  readonly batch: number;
  readonly rate: number;
  readonly parameters: readonly {
    readonly name: string;
    readonly shape: readonly number[];
    readonly center: number;
    readonly spread: number;
  }[];
  readonly losses: readonly number[];
}

const fixtures: Record<string, Fixture> = JSON.parse(
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

/** Element `index` of stream `salt`, in [0, 1): make.py has the same function. */
function uniform(salt: number, index: number): number {
  let x = (Math.imul(index, 0x9e3779b1) + Math.imul(salt, 0x85ebca77)) >>> 0;
  x ^= x >>> 15;
  x = Math.imul(x, 0x2c1b3c6d) >>> 0;
  x ^= x >>> 12;
  x = Math.imul(x, 0x297a2d39) >>> 0;
  x ^= x >>> 15;
  return (x >>> 0) / 2 ** 32;
}

function field({ shape, wire, below }: DataPlan, batch: number, salt: number): Tensor {
  const count = batch * elementCount(shape);
  const values = Array.from({ length: count }, (_, i) => uniform(salt, i));
  if (wire === "float32") return { dtype: "float32", shape: [batch, ...shape], data: Float32Array.from(values) };
  return {
    dtype: "int32",
    shape: [batch, ...shape],
    data: Int32Array.from(values, (value) => Math.floor(value * below!)),
  };
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
