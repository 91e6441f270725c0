// Imported ONNX models compute and learn as PyTorch does, for a batch size the export never saw. fixtures/make_onnx.py
// exported them and wrote PyTorch's figures.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { hasCode } from "../../core/errors.ts";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { encodeOnnx } from "../../graph/onnx.ts";
import { compileText } from "../compile.ts";
import { buildInference } from "../graphs/graphs.ts";
import { LocalTrainer } from "../graphs/trainer.testing.ts";
import { importOnnx } from "./import-onnx.ts";

interface Fixture {
  readonly inputs: readonly number[];
  readonly shape: readonly number[];
  readonly labels: readonly number[];
  readonly outputs: readonly number[];
  readonly losses: readonly number[];
  readonly rate: number;
}

const file = (name: string) => readFileSync(new URL(`../fixtures/${name}`, import.meta.url));
const fixtures: Record<string, Fixture> = JSON.parse(file("onnx.json").toString());

function fieldOf(wire: string, shape: readonly number[], values: readonly number[]): Tensor {
  return wire === "int32" ? { dtype: "int32", shape, data: Int32Array.from(values) } : float32(shape, values);
}

for (const [name, fixture] of Object.entries(fixtures)) {
  const { definition, weights } = importOnnx(file(`${name}.onnx`), { name });
  // The tests' trainer takes the optimizer from the plan.
  const plan = compileText(definition.replaceAll("    config:\n", "    config:\n      optimizer: sgd\n"));

  test(`${name} is cut into parts that have weights, and all weights arrive`, () => {
    assert.ok(plan.vnodes.length > 2, `${plan.vnodes.length} VNodes`);
    const parameters = plan.vnodes.flatMap((vnode) => vnode.parameters);
    assert.deepEqual(parameters.map((parameter) => parameter.name).sort(), [...weights.keys()].sort());
    for (const { name, shape } of parameters) assert.deepEqual(weights.get(name)!.shape, shape);
    assert.ok(plan.vnodes.every((vnode) => vnode.parameters.length > 0));
  });

  test(`${name} gives PyTorch's outputs`, async () => {
    const engine = openReferenceEngine();
    const batch = fixture.shape[0]!;
    let feeds: Record<string, Tensor> = { inputs: fieldOf(plan.inputs!.wire, fixture.shape, fixture.inputs) };
    for (const id of plan.order) {
      const vnode = plan.vnodes.find((each) => each.id === id)!;
      const program = await engine.load(buildInference(plan, vnode, { microbatch: batch }));
      feeds = { ...feeds, ...(await program.run({ ...feeds, ...Object.fromEntries(weights) })) };
    }
    const found = feeds[plan.outputs[0]!.port]!.data as Float32Array;
    assert.equal(found.length, fixture.outputs.length);
    for (const [i, value] of fixture.outputs.entries())
      assert.ok(Math.abs(found[i]! - value) < 1e-5, `[${i}]: ${found[i]} is not ${value}`);
  });

  test(`${name} learns as in PyTorch`, async () => {
    const engine = openReferenceEngine();
    const batch = fixture.shape[0]!;
    const initial = new Map([...weights].map(([key, { data }]) => [key, data as Float32Array]));
    const trainer = await LocalTrainer.open({ engine, plan, microbatch: batch, rate: fixture.rate, weights: initial });
    const labels = plan.labels!;
    const sample = {
      inputs: fieldOf(plan.inputs!.wire, fixture.shape, fixture.inputs),
      labels: fieldOf(labels.wire, [batch, ...labels.shape], fixture.labels),
    };
    assert.equal(fixture.labels.length, elementCount([batch, ...labels.shape]));
    for (const [step, expected] of fixture.losses.entries()) {
      const loss = await trainer.step([sample]);
      assert.ok(Math.abs(loss - expected) < 1e-4 * expected, `step ${step}: ${loss}, PyTorch ${expected}`);
    }
  });
}

test("token ids of an imported model are bounded by its table", () => {
  const plan = compileText(importOnnx(file("text.onnx"), { name: "text" }).definition);
  assert.equal(plan.inputs?.below, 11);
});

test("a truncated file, a model without weights and a broken graph in a definition are refused with a sentence", () => {
  const whole = file("images.onnx");
  assert.throws(
    () => importOnnx(whole.subarray(0, whole.length >> 1), { name: "half" }),
    (thrown: Error) => "code" in thrown && !/undefined/.test(thrown.message),
  );
  const builder = new GraphBuilder("bare");
  builder.output(builder.op("Relu", [builder.input("x", "float32", [2, 3])]), "y");
  assert.throws(() => importOnnx(encodeOnnx(builder.build()), { name: "bare" }), /no weights that could be trained/);
  for (const graph of [
    "AAAA",
    Buffer.from("{}").toString("base64"),
    Buffer.from(
      '{"input":{"name":"x","kind":"floats","shape":[2]},"output":{"name":"y","shape":[2]},"parameters":[],"constants":[],"nodes":[{"op":"Nope"}]}',
    ).toString("base64"),
  ])
    assert.throws(
      () => compileText(`nodes: [{ id: part, type: onnx, config: { graph: "${graph}" } }]`),
      (thrown: Error) => hasCode(thrown, "invalid_argument") && /node "part": key "graph"/.test(thrown.message),
    );
});
