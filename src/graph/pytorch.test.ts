// PyTorch as a second opinion on operators and their derivatives: fixtures/make.py wrote its figures.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import type { Shape, Tensor } from "../core/tensor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { GraphBuilder } from "./builder.ts";
import { deriveBackward } from "./derive.ts";
import type { Attribute } from "./model.ts";
import { assertClose, pick } from "./operators/oracle.test.ts";

interface Case {
  readonly op: string;
  readonly attributes: Record<string, Attribute>;
  readonly inputs: { readonly shape: Shape; readonly dtype: "float32" | "int32"; readonly values: number[] }[];
  readonly output: { readonly shape: Shape; readonly values: number[] };
  readonly seed: number[];
  readonly gradients: (number[] | null)[];
}

const fixture = JSON.parse(readFileSync(new URL("./fixtures/pytorch.json", import.meta.url), "utf8")) as {
  cases: Case[];
};

for (const [i, given] of fixture.cases.entries())
  test(`${given.op} and its gradients are PyTorch's (case ${i + 1})`, async () => {
    const builder = new GraphBuilder(given.op);
    const values = given.inputs.map(({ dtype, shape }, index) => builder.input(`x${index}`, dtype, shape));
    builder.output(builder.op(given.op, values, given.attributes), "y");
    const gradientsOf = values.filter((_, index) => given.gradients[index]).map((value) => value.name);
    const { forward, backward, sparse } = deriveBackward(builder.build(), { gradientsOf, from: ["y"] });
    const engine = openReferenceEngine();
    const feeds = Object.fromEntries(given.inputs.map((input, index) => [`x${index}`, tensorOf(input)]));
    const outputs = await (await engine.load(forward)).run(feeds);
    assertClose(outputs["y"] as Tensor, float(given.output.shape, given.output.values), 2e-6, "y");
    const all = { ...feeds, ...outputs, "grad:y": float(given.output.shape, given.seed) };
    const results = await (await engine.load(backward)).run(pick(all, backward));
    for (const [index, expected] of given.gradients.entries()) {
      if (!expected) continue;
      const { shape } = given.inputs[index] as Case["inputs"][number];
      const rows = sparse.find(({ parameter }) => parameter === `x${index}`);
      const actual = rows
        ? scattered(shape, feeds[rows.ids] as Tensor, results[rows.gradient] as Tensor)
        : (results[`grad:x${index}`] as Tensor);
      assertClose(actual, float(shape, expected), 2e-6, `gradient of input ${index}`);
    }
  });

test("the fixture covers every composite with arithmetic of its own", () => {
  const covered = new Set(fixture.cases.map(({ op }) => op));
  for (const op of ["Attention", "Embedding", "Gelu", "Linear", "LinearCrossEntropy", "RmsNorm", "Silu", "SwiGlu"])
    assert.ok(covered.has(op), op);
});

function tensorOf({ shape, dtype, values }: Case["inputs"][number]): Tensor {
  return dtype === "int32" ? { dtype, shape, data: Int32Array.from(values) } : float(shape, values);
}

function float(shape: Shape, values: readonly number[]): Tensor {
  return { dtype: "float32", shape, data: Float32Array.from(values) };
}

function scattered(shape: Shape, ids: Tensor, rows: Tensor): Tensor {
  const width = shape[1] as number;
  const total = new Float32Array((shape[0] as number) * width);
  for (let i = 0; i < rows.data.length; i++) {
    const at = (ids.data[Math.floor(i / width)] as number) * width + (i % width);
    total[at] = (total[at] as number) + (rows.data[i] as number);
  }
  return { dtype: "float32", shape, data: total };
}
