// Twelve models of the usual kinds from the usual exporters compute and learn as in the framework that they come from, for a batch
// size that the export never saw. fixtures/exporters/make_models.py made them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import { openPortableEngine } from "../../engine/portable/engine.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { seededRandom } from "../../graph/operators/oracle.test.ts";
import { compileText } from "../compile.ts";
import { buildInference } from "../graphs/graphs.ts";
import { LocalTrainer } from "../graphs/trainer.testing.ts";
import { type ImportOptions, importOnnx } from "./import-onnx.ts";

interface Fixture {
  readonly inputs: readonly number[];
  readonly shape: readonly number[];
  readonly labels: readonly number[];
  readonly outputs: readonly number[];
  readonly losses: readonly number[];
  readonly rate: number;
  readonly cost: NonNullable<ImportOptions["cost"]>;
  /** How many numbers learn in the framework. */
  readonly parameters: number;
  readonly fixed?: Readonly<Record<string, number>>;
  readonly classes?: readonly string[];
}

const file = (name: string) => readFileSync(new URL(`../fixtures/exporters/${name}`, import.meta.url));
const fixtures: Record<string, Fixture> = JSON.parse(file("models.json").toString());

function fieldOf(wire: string, shape: readonly number[], values: readonly number[]): Tensor {
  return wire === "int32" ? { dtype: "int32", shape, data: Int32Array.from(values) } : float32(shape, values);
}

function imported(name: string, { fixed, cost }: Fixture, guessed = false) {
  return importOnnx(file(`${name}.onnx`), { name, ...(fixed && { fixed }), ...(!guessed && { cost }) });
}

test("there are twelve models", () => {
  assert.equal(Object.keys(fixtures).length, 12);
});

for (const [name, fixture] of Object.entries(fixtures)) {
  const [batch = 0] = fixture.shape;

  test(`${name}: what learns in the framework learns here, and nothing else`, () => {
    const { weights, classes } = imported(name, fixture);
    const count = [...weights.values()].reduce((sum, { shape }) => sum + elementCount(shape), 0);
    assert.equal(count, fixture.parameters);
    assert.deepEqual(classes, fixture.classes);
  });

  test(`${name} gives the framework's outputs on both engines`, async () => {
    const { definition, weights } = imported(name, fixture);
    const plan = compileText(definition);
    for (const engine of [openReferenceEngine(), openPortableEngine()]) {
      let feeds: Record<string, Tensor> = { inputs: fieldOf(plan.inputs!.wire, fixture.shape, fixture.inputs) };
      for (const id of plan.order) {
        const vnode = plan.vnodes.find((each) => each.id === id)!;
        const graph = buildInference(plan, vnode, { microbatch: batch });
        const all: Record<string, Tensor> = { ...feeds, ...Object.fromEntries(weights) };
        const given = Object.fromEntries(graph.inputs.map(({ name: input }) => [input, all[input]!]));
        const program = await engine.load(graph);
        feeds = { ...feeds, ...(await program.run(given)) };
        await program.release();
      }
      const found = feeds[plan.outputs[0]!.port]!.data as Float32Array;
      assert.equal(found.length, fixture.outputs.length);
      const scale = Math.max(1, ...fixture.outputs.map(Math.abs));
      for (const [i, value] of fixture.outputs.entries())
        assert.ok(Math.abs(found[i]! - value) < 1e-5 * scale, `[${i}]: ${found[i]} is not ${value}`);
    }
  });

  test(`${name} learns as in the framework`, async () => {
    const { definition, weights } = imported(name, fixture);
    // The tests' trainer takes the optimizer from the plan.
    const plan = compileText(definition.replaceAll("    config:\n", "    config:\n      optimizer: sgd\n"));
    const initial = new Map([...weights].map(([key, { data }]) => [key, data as Float32Array]));
    const engine = openReferenceEngine();
    const trainer = await LocalTrainer.open({ engine, plan, microbatch: batch, rate: fixture.rate, weights: initial });
    const labels = plan.labels!;
    assert.equal(fixture.labels.length, elementCount([batch, ...labels.shape]));
    const sample = {
      inputs: fieldOf(plan.inputs!.wire, fixture.shape, fixture.inputs),
      labels: fieldOf(labels.wire, [batch, ...labels.shape], fixture.labels),
    };
    for (const [step, expected] of fixture.losses.entries()) {
      const loss = await trainer.step([sample]);
      assert.ok(Math.abs(loss - expected) < 1e-4 * expected, `step ${step}: ${loss}, the framework ${expected}`);
    }
  });
}

test("a probability is recognised as one, so that its loss is that of probabilities", () => {
  for (const name of ["regression", "perceptron"])
    assert.match(imported(name, fixtures[name]!, true).definition, /cost_function: ce\n/);
  assert.match(imported("mobile", fixtures["mobile"]!, true).definition, /cost_function: ce_logits\n/);
});

test("inputs, outputs and weights that do not exist are refused by name, with what there is", () => {
  const tagger = file("tagger.onnx");
  assert.throws(() => importOnnx(tagger, { name: "t" }), /2 inputs \(x, x1\): one can be fed/);
  assert.throws(() => importOnnx(tagger, { name: "t", output: "z" }), /no output "z": it has y/);
  assert.throws(() => importOnnx(tagger, { name: "t", constant: ["nope"] }), /no weight "nope"/);
  assert.throws(
    () => importOnnx(file("regression.onnx"), { name: "r", classes: ["a", "b"] }),
    /2 names of classes do not fit the output \[3\]/,
  );
});

test("what learns can be said by hand", () => {
  const plain = imported("tagger", fixtures["tagger"]!);
  const sines = plain.constants.find((name) => name.includes("sines"))!;
  const options = { name: "tagger", fixed: { x1: 1 } };
  const trained = importOnnx(file("tagger.onnx"), { ...options, trainable: [sines] });
  assert.ok([...trained.weights.keys()].some((name) => name.endsWith("sines")));
  const [kept] = [...plain.weights.keys()].map((name) => name.replace(/^part_\d+\./, ""));
  const held = importOnnx(file("tagger.onnx"), { ...options, constant: [kept!] });
  assert.equal(held.weights.size, plain.weights.size - 1);
});

test("a damaged file is refused or read; it never breaks the process", () => {
  const random = seededRandom(11);
  for (const name of ["lstm", "pixels", "tagger", "regression", "rotary"]) {
    const whole = file(`${name}.onnx`);
    for (let i = 0; i < 60; i++) {
      const damaged = new Uint8Array(whole);
      for (let k = 0; k < 3; k++) damaged[Math.floor(random() * damaged.length)] = Math.floor(random() * 256);
      try {
        importOnnx(damaged, { name, fixed: { x1: 1 } });
      } catch (thrown) {
        assert.ok(thrown instanceof DcnrError, `${name} ${i}: ${(thrown as Error).stack}`);
      }
    }
  }
});
