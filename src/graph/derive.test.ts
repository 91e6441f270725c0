import assert from "node:assert/strict";
import test from "node:test";
import { elementCount, type Tensor } from "../core/tensor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { GraphBuilder } from "./builder.ts";
import { costOf } from "./cost.ts";
import { deriveBackward, deriveTraining } from "./derive.ts";
import type { GraphModel } from "./model.ts";
import { assertClose, checkDerivative, compareRuntimes, pick, seededRandom } from "./operators/oracle.test.ts";
import { findOperator } from "./operators/registry.ts";

const [batch, sequence, width, heads, vocabulary] = [2, 4, 8, 2, 11];

/** A transformer block with grouped queries, rotary positions and dropout. */
function block(): { model: GraphModel; parameters: string[] } {
  const builder = new GraphBuilder("block");
  const parameters: string[] = [];
  const parameter = (name: string, ...shape: number[]) => {
    parameters.push(name);
    return builder.input(name, "float32", shape);
  };
  const x = builder.input("x", "float32", [batch, sequence, width]);
  const tables = ["cos", "sin"].map((name) => builder.input(name, "float32", [sequence, width / heads / 2]));
  const drop = builder.input("drop", "float32", [batch, sequence, width]);
  const normal = builder.op("LayerNormalization", [x, parameter("scale", width), parameter("shift", width)]);
  const project = (name: string, count: number) => {
    const flat = builder.op("Linear", [normal, parameter(name, width, (count * width) / heads)]);
    const apart = builder.op("Reshape", [flat], { shape: [batch, sequence, count, width / heads] });
    return builder.op("Transpose", [apart], { perm: [0, 2, 1, 3] });
  };
  const query = builder.op("Rope", [project("query", heads), ...tables]);
  const key = builder.op("Rope", [project("key", 1), ...tables]);
  const mixed = builder.op("Attention", [query, key, project("value", 1)]);
  const joined = builder.op("Reshape", [builder.op("Transpose", [mixed], { perm: [0, 2, 1, 3] })], { shape: x.shape });
  const out = builder.op("ChanceMask", [builder.op("Linear", [joined, parameter("out", width, width)]), drop]);
  const residual = builder.op("Add", [x, out]);
  const wide = builder.op("Linear", [
    builder.op("RmsNorm", [residual, parameter("rms", width)]),
    parameter("up", width, 16),
  ]);
  const narrow = builder.op("Linear", [
    builder.op("Gelu", [wide]),
    parameter("down", 16, width),
    parameter("bias", width),
  ]);
  builder.output(builder.op("Add", [residual, narrow]), "y");
  return { model: builder.build(), parameters };
}

function head(): GraphModel {
  const builder = new GraphBuilder("head");
  const table = builder.input("table", "float32", [vocabulary, width]);
  const ids = builder.input("ids", "int32", [batch, sequence]);
  const labels = builder.input("labels", "int32", [batch, sequence]);
  const hidden = builder.op("Tanh", [builder.op("Embedding", [table, ids])]);
  builder.output(hidden, "hidden");
  builder.output(builder.op("LinearCrossEntropy", [hidden, table, labels], { chunkRows: 3 }), "loss");
  return builder.build();
}

function feedsFor(model: GraphModel): Record<string, Tensor> {
  const random = seededRandom(5);
  return Object.fromEntries(
    model.inputs.map(({ name, dtype, shape }): [string, Tensor] => {
      const values = Array.from({ length: elementCount(shape) }, () => random());
      return dtype === "int32"
        ? [name, { dtype, shape, data: Int32Array.from(values, (value) => Math.floor(value * vocabulary)) }]
        : [name, { dtype: "float32", shape, data: Float32Array.from(values, (value) => value * 2 - 1) }];
    }),
  );
}

test("a whole transformer block has the derivatives of finite differences", async () => {
  const { model, parameters } = block();
  await checkDerivative(model, feedsFor(model), ["x", ...parameters]);
});

test("a whole transformer block runs on ONNX Runtime as on the reference", async () => {
  const { model, parameters } = block();
  await compareRuntimes(model, feedsFor(model), 2e-5, ["x", ...parameters]);
});

test("the backward graph runs no expensive forward operator again, but attention's weights", () => {
  const { model, parameters } = block();
  const { forward, saved } = deriveBackward(model, { gradientsOf: ["x", ...parameters], from: ["y"] });
  assert.deepEqual(
    forward.outputs.map(({ name }) => name),
    ["y", ...saved.map(({ name }) => name)],
  );
  // query, key, value, attention's result, the residual, the wide layer: what the recipe keeps.
  const element = (count: number) => 4 * batch * sequence * count;
  const expected = element(width) + 2 * element(width / heads) + element(width) + element(width) + element(16);
  assert.equal(
    saved.reduce((sum, { shape }) => sum + 4 * elementCount(shape), 0),
    expected,
  );
});

test("gradients of values that are used several times are sums in a fixed order, the same in every derivation", () => {
  const { model, parameters } = block();
  const derive = () => deriveBackward(model, { gradientsOf: ["x", ...parameters], from: ["y"] });
  assert.deepEqual(derive(), derive());
});

test("derived graphs hold ONNX operators only and list only inputs that they use", () => {
  const { model, parameters } = block();
  const { forward, backward } = deriveBackward(model, { gradientsOf: parameters, from: ["y"] });
  for (const node of [...forward.nodes, ...backward.nodes])
    assert.equal(findOperator(node.op)?.lower, undefined, node.op);
  const used = new Set(backward.nodes.flatMap((node) => node.inputs));
  for (const { name } of backward.inputs) assert.ok(used.has(name), name);
});

test("an input that nothing depends on has a gradient of zeros", async () => {
  const builder = new GraphBuilder("unused");
  const x = builder.input("x", "float32", [2]);
  builder.input("idle", "float32", [3]);
  builder.output(builder.op("Neg", [x]), "y");
  const { backward } = deriveBackward(builder.build(), { gradientsOf: ["x", "idle"], from: ["y"] });
  const seed: Tensor = { dtype: "float32", shape: [2], data: Float32Array.of(1, 2) };
  const results = await (await openReferenceEngine().load(backward)).run({ "grad:y": seed });
  assert.deepEqual([...(results["grad:idle"]!.data as Float32Array)], [0, 0, 0]);
  assert.deepEqual([...(results["grad:x"]!.data as Float32Array)], [-1, -2]);
});

test("a tied table gets a dense gradient from the head and rows from the lookup; together they are right", async () => {
  const model = head();
  const feeds = feedsFor(model);
  const lossScale = 0.5;
  const { graph, sparse } = deriveTraining(model, { loss: "loss", lossScale, gradientsOf: ["table"] });
  assert.deepEqual(sparse, [{ parameter: "table", ids: "ids", gradient: "rows:table" }]);
  const engine = openReferenceEngine({ dtype: "float64" });
  const results = await (await engine.load(graph)).run(feeds);
  const total = Float64Array.from(results["grad:table"]!.data as Float64Array);
  const rows = results["rows:table"] as Tensor;
  for (let i = 0; i < rows.data.length; i++) {
    const at = Number(feeds["ids"]?.data[Math.floor(i / width)]) * width + (i % width);
    total[at] = (total[at] as number) + (rows.data[i] as number);
  }
  const program = await engine.load(model);
  const table = Float64Array.from(feeds["table"]!.data as Float32Array);
  const lossAt = async (index: number, change: number) => {
    const data = table.map((value, i) => (i === index ? value + change : value));
    const outputs = await program.run({ ...feeds, table: { dtype: "float64", shape: [vocabulary, width], data } });
    return outputs["loss"]?.data[0] as number;
  };
  for (let i = 0; i < table.length; i += 5) {
    const difference = ((await lossAt(i, 1e-5)) - (await lossAt(i, -1e-5))) / 2e-5;
    assert.ok(Math.abs((total[i] as number) - lossScale * difference) < 1e-6, `table[${i}]`);
  }
});

test("a training graph yields the same loss and outputs as the forward graph", async () => {
  const model = head();
  const feeds = feedsFor(model);
  const engine = openReferenceEngine();
  const expected = await (await engine.load(model)).run(feeds);
  const { graph } = deriveTraining(model, { loss: "loss", lossScale: 1, gradientsOf: ["table"] });
  const actual = await (await engine.load(graph)).run(pick(feeds, graph));
  for (const name of ["hidden", "loss"]) assertClose(actual[name] as Tensor, expected[name] as Tensor, 1e-6, name);
});

test("the logits of a language model's head are never whole in memory", () => {
  const [rows, classes] = [4096, 1000];
  const builder = new GraphBuilder("large");
  const x = builder.input("x", "float32", [rows, 4]);
  const weight = builder.input("weight", "float32", [classes, 4]);
  const labels = builder.input("labels", "int32", [rows]);
  builder.output(builder.op("LinearCrossEntropy", [x, weight, labels]), "loss");
  const { graph } = deriveTraining(builder.build(), { loss: "loss", lossScale: 1, gradientsOf: ["x", "weight"] });
  const whole = 4 * rows * classes;
  assert.ok(costOf(graph).peakBytes < whole / 2, `${costOf(graph).peakBytes} bytes alive at once`);
});

test("what cannot be derived is refused with a sentence", () => {
  const model = head();
  assert.throws(() => deriveBackward(model, { gradientsOf: ["none"], from: ["loss"] }), /no input named "none"/);
  assert.throws(() => deriveBackward(model, { gradientsOf: ["table"], from: ["none"] }), /no output named "none"/);
  assert.throws(
    () => deriveTraining(model, { loss: "hidden", lossScale: 1, gradientsOf: ["table"] }),
    /the loss "hidden" of graph head has the shape \[2,4,8\]: it must be one number/,
  );
});
