import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import { describe, test } from "node:test";
import * as math from "../../core/numbers/math.ts";
import { bytesOf, elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { deriveTraining } from "../../graph/derive.ts";
import type { GraphModel } from "../../graph/model.ts";
import { sigmoidOf } from "../../graph/operators/activations/sigmoid.ts";
import { engineConformance, float, node, normal } from "../conformance.ts";
import type { Engine, Tensors } from "../engine.ts";
import { numericsFingerprint, probeGraph } from "../fingerprint.ts";
import { openPortableEngine } from "../portable/engine.ts";
import { openReferenceEngine } from "../reference.ts";
import { exactForDevice } from "./device-lower.ts";
import { exactClass, exactFingerprint, openExactEngine } from "./engine.ts";
import { exactGraph } from "./lower.ts";

engineConformance("exact", () => openExactEngine(), { denormals: "kept or flushed" });

const exact = openExactEngine();

async function run(engine: Engine, graph: GraphModel, feeds: Tensors): Promise<Tensors> {
  const program = await engine.load(graph);
  try {
    return await program.run(feeds);
  } finally {
    await program.release();
  }
}

const randomFeeds = (graph: GraphModel): Tensors =>
  Object.fromEntries(
    graph.inputs.map(({ name, dtype, shape }) => [
      name,
      dtype === "float32" ? normal(name, shape) : { dtype, shape, data: new Int32Array(elementCount(shape)).fill(2) },
    ]),
  );

/** Attention, norms of both kinds, a gated layer and cross-entropy, forward and backward. */
function transformer(): GraphModel {
  const graph = new GraphBuilder("transformer");
  const [x, labels] = [graph.input("x", "float32", [2, 5, 12]), graph.input("labels", "int32", [10])];
  const weight = (name: string, ...shape: number[]) => graph.input(name, "float32", shape);
  const level = graph.op("RmsNorm", [x, weight("scale", 12)], { epsilon: 1e-5 });
  const heads = graph.op("MatMul", [level, weight("mix", 12, 12)]);
  const mixed = graph.op("Attention", [heads, heads, heads], { causal: 1 });
  const gate = graph.op("Silu", [graph.op("MatMul", [mixed, weight("up", 12, 300)])]);
  const down = graph.op("Add", [x, graph.op("MatMul", [gate, weight("down", 300, 12)])]);
  const flat = graph.op("Reshape", [graph.op("Gelu", [down])], { shape: [10, 12] });
  const scores = graph.op("MatMul", [flat, weight("head", 12, 7)]);
  graph.output(graph.op("SoftmaxCrossEntropy", [scores, labels]), "loss");
  const gradientsOf = ["scale", "mix", "up", "down", "head"];
  return deriveTraining(graph.build(), { loss: "loss", lossScale: 1, gradientsOf }).graph;
}

for (const graph of [probeGraph, transformer()])
  test(`${graph.name} has the same bits compiled, by the operators' own loops, and in the form for GPUs`, async () => {
    const feeds = randomFeeds(graph);
    const expected = await run(exact, graph, feeds);
    const lowered = exactGraph(graph);
    const others: [string, Engine, GraphModel][] = [
      ["plain loops", openReferenceEngine(), lowered],
      ["wide tiles", openPortableEngine({ tile: 4 }), lowered],
      ["the form for GPUs", openPortableEngine(), exactForDevice(lowered)],
    ];
    for (const [name, engine, form] of others) {
      const found = await run(engine, form, feeds);
      for (const output of graph.outputs)
        deepStrictEqual(
          bytesOf(found[output.name] as Tensor),
          bytesOf(expected[output.name] as Tensor),
          `${name}: ${output.name}`,
        );
    }
  });

test("the fingerprint is the one of every machine", async () => {
  strictEqual(await numericsFingerprint(exact), exactFingerprint);
  strictEqual(await exact.numericsClass(), exactClass);
});

/** One operator between x and y. */
const single = (op: string, shapes: readonly Shape[], out: Shape): GraphModel => ({
  name: op,
  inputs: shapes.map((shape, i) => float(`x${i}`, ...shape)),
  outputs: [float("y", ...out)],
  nodes: [
    node(
      op,
      shapes.map((_, i) => `x${i}`),
      "y",
    ),
  ],
  constants: {},
});

const elements = 1 << 14;
const unit = (value: number) => 2 ** (Math.floor(Math.log2(Math.max(Math.abs(value), 2 ** -100))) - 23);

describe("functions stay within their bounds of core/numbers/math.ts, in units of the last place", () => {
  const bounds: Record<string, { exact: (x: number) => number; from: number; to: number; units: number }> = {
    Exp: { exact: math.exp, from: -69, to: 87.9, units: 2 },
    Log: { exact: math.log, from: 1e-6, to: 100, units: 2.5 },
    Erf: { exact: math.erf, from: -6, to: 6, units: 8 },
    Tanh: { exact: math.tanh, from: -12, to: 12, units: 4 },
    Sigmoid: { exact: sigmoidOf, from: -60, to: 60, units: 4 },
    Sqrt: { exact: Math.sqrt, from: 0, to: 1e4, units: 1 },
    Reciprocal: { exact: (x) => 1 / x, from: 1e-4, to: 900, units: 1.5 },
  };
  for (const [op, { exact: oracle, from, to, units }] of Object.entries(bounds))
    test(`${op}: ${units}`, async () => {
      const data = Float32Array.from({ length: elements }, (_, i) => from + ((to - from) * i) / (elements - 1));
      const feeds = { x0: { dtype: "float32" as const, shape: [elements], data } };
      const { y } = await run(exact, single(op, [[elements]], [elements]), feeds);
      let [worst, at] = [0, 0];
      for (const [i, x] of data.entries()) {
        const error = Math.abs(((y as Tensor).data as Float32Array)[i]! - oracle(x)) / unit(oracle(x));
        if (error > worst) [worst, at] = [error, x];
      }
      ok(worst <= units, `${worst.toFixed(2)} units at ${at}`);
    });
});

test("a product is nearly as close as one in floats, whatever its rows' sizes", async () => {
  const [a, b] = [normal("a", [9, 700]), normal("b", [700, 8])];
  for (const [i, value] of a.data.entries()) a.data[i] = value * 10 ** (Math.floor(i / 700) - 5);
  const { y } = await run(exact, single("MatMul", [a.shape, b.shape], [9, 8]), { x0: a, x1: b });
  for (let row = 0; row < 9; row++)
    for (let column = 0; column < 8; column++) {
      let [sum, sizeA, sizeB] = [0, 0, 0];
      for (let k = 0; k < 700; k++) {
        const [p, q] = [a.data[row * 700 + k] as number, b.data[k * 8 + column] as number];
        sum += p * q;
        sizeA += p * p;
        sizeB += q * q;
      }
      const error = Math.abs((((y as Tensor).data[row * 8 + column] as number) - sum) / Math.sqrt(sizeA * sizeB));
      ok(error < 2e-7, `${error} at ${row}, ${column}`);
    }
});

test("no denormal and no negative zero comes out, and what is too large for whole numbers is not finite", async () => {
  const values = Float32Array.of(1e-40, -1e-40, -0, 0, 1e-20, -1e-20, 1, 1e38);
  const x = { dtype: "float32" as const, shape: [8], data: values };
  const { y } = await run(exact, single("Mul", [[8], [8]], [8]), { x0: x, x1: { ...x, data: values.toReversed() } });
  const products = [...((y as Tensor).data as Float32Array)];
  deepStrictEqual(products, [0, 0, 0, 0, 0, 0, 0, 0]);
  ok(products.every((value) => Object.is(value, 0)));
  const matrix = (value: number) => ({ dtype: "float32" as const, shape: [1, 1], data: Float32Array.of(value) });
  for (const [left, fits] of [
    [2 ** 60, true],
    [2 ** 61, false],
    [Number.POSITIVE_INFINITY, false],
    [Number.NaN, false],
  ] as const) {
    const found = await run(
      exact,
      single(
        "MatMul",
        [
          [1, 1],
          [1, 1],
        ],
        [1, 1],
      ),
      { x0: matrix(left), x1: matrix(1) },
    );
    strictEqual(Number.isFinite((found["y"] as Tensor).data[0]), fits, String(left));
  }
});

test("an operator that has no exact form is refused by name", async () => {
  const graph: GraphModel = {
    name: "images",
    inputs: [float("x", 1, 1, 4, 4), float("w", 1, 1, 3, 3)],
    outputs: [float("y", 1, 1, 2, 2)],
    nodes: [node("Conv", ["x", "w"], "y")],
    constants: {},
  };
  await rejects(exact.load(graph), /exact numerics have no Conv: use portable for this network/);
});
