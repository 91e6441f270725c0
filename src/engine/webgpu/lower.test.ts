import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import { GraphBuilder, type Value } from "../../graph/builder.ts";
import type { GraphModel } from "../../graph/model.ts";
import { close, float, node, normal } from "../conformance.ts";
import { openReferenceEngine } from "../reference.ts";
import { lowerForDevice } from "./lower.ts";

/** Operators that the provider does not have. */
const absent = new Set(["FusedMatMul", "LogSoftmax", "FusedGelu"]);

/** The reference engine's results for a graph and for what it is lowered to. */
async function both(graph: GraphModel, feeds: Record<string, Tensor>): Promise<void> {
  const lowered = lowerForDevice(graph);
  for (const { op } of lowered.nodes) assert.ok(!absent.has(op), op);
  const engine = openReferenceEngine();
  const [expected, found] = await Promise.all([graph, lowered].map(async (one) => (await engine.load(one)).run(feeds)));
  for (const { name } of graph.outputs)
    close(found?.[name], Array.from(expected?.[name]?.data as Float32Array, Number), 2e-6);
}

test("products, logarithms of shares and Gelu are the same functions", async () => {
  const product = { transA: 1, transB: 1, alpha: 0.25 };
  await both(
    {
      name: "absent",
      inputs: [float("a", 2, 3, 5, 4), float("b", 2, 3, 6, 5)],
      outputs: [float("c", 2, 3, 4, 6), float("d", 2, 3, 4, 6), float("e", 2, 3, 4, 6)],
      nodes: [
        node("FusedMatMul", ["a", "b"], "c", product),
        node("LogSoftmax", ["c"], "d", { axis: -1 }),
        node("FusedGelu", ["c"], "e"),
      ],
      constants: {},
    },
    { a: normal("a", [2, 3, 5, 4]), b: normal("b", [2, 3, 6, 5]) },
  );
});

/** y = MaxPool(x), and the flat places of the maxima as floats. */
function pooling(shape: readonly number[], attributes: Record<string, number[]>): GraphModel {
  const builder = new GraphBuilder("pooling");
  const x = builder.input("x", "float32", shape);
  const [y, places] = builder.ops("MaxPool", [x], attributes, 2) as [Value, Value];
  builder.output(y, "y");
  builder.output(builder.op("Cast", [places], { to: 1 }), "places");
  return builder.build();
}

test("the places of maxima are those of MaxPool, with padding, gaps and equal values", async () => {
  const shape = [2, 3, 9, 8];
  const few: Tensor = { dtype: "float32", shape, data: Float32Array.from({ length: 432 }, (_, i) => (i * i) % 5) };
  for (const x of [normal("x", shape), few])
    for (const attributes of [
      { kernel_shape: [2, 2], strides: [2, 2], pads: [0, 0, 0, 0], dilations: [1, 1] },
      { kernel_shape: [3, 2], strides: [3, 4], pads: [1, 0, 1, 1], dilations: [1, 1] },
      { kernel_shape: [2, 2], strides: [3, 3], pads: [0, 0, 0, 0], dilations: [2, 2] },
    ])
      await both(pooling(shape, attributes), { x });
});

test("windows that overlap are refused: their gradient would not repeat", () => {
  const graph = pooling([1, 1, 5, 5], { kernel_shape: [3, 3], strides: [2, 2], pads: [0, 0, 0, 0] });
  assert.throws(() => lowerForDevice(graph), /windows overlap does not run on GPUs/);
});

test("whole numbers are cut as floats and come out as they were", () => {
  const builder = new GraphBuilder("labels");
  const labels = builder.input("labels", "int32", [6]);
  builder.output(builder.op("Slice", [labels], { starts: [2], ends: [5], axes: [0], steps: [1] }), "some");
  const lowered = lowerForDevice(builder.build());
  assert.deepEqual(
    lowered.nodes.map(({ op }) => op),
    ["Cast", "Slice", "Cast"],
  );
  assert.equal(lowered.outputs[0]?.dtype, "int32");
});
