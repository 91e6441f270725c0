import assert from "node:assert/strict";
import test from "node:test";
import { float32 } from "../core/tensor.ts";
import { GraphBuilder } from "../graph/builder.ts";
import { lowerModel } from "../graph/lower.ts";
import { openReferenceEngine } from "./reference.ts";

function affine() {
  const builder = new GraphBuilder("affine");
  const x = builder.input("x", "float32", [2, 2]);
  const y = builder.op("Reshape", [builder.op("Add", [builder.op("Mul", [x, x]), builder.scalar(1)])], { shape: [4] });
  builder.output(y, "y");
  builder.output(builder.op("Neg", [builder.op("Reshape", [y], { shape: [2, 2] })]), "z");
  return builder.build();
}

const x = float32([2, 2], [1, 2, 3, 4]);

test("a program gives the same results at every run and never changes its feeds", async () => {
  const program = await openReferenceEngine().load(affine());
  const feed = float32([2, 2], [1, 2, 3, 4]);
  const first = await program.run({ x: feed });
  await program.run({ x: float32([2, 2], [9, 9, 9, 9]) });
  const second = await program.run({ x: feed });
  assert.deepEqual(second, first);
  assert.deepEqual([...(first["y"]!.data as Float32Array)], [2, 5, 10, 17]);
  assert.deepEqual([...(first["z"]!.data as Float32Array)], [-2, -5, -10, -17]);
  assert.deepEqual([...(feed.data as Float32Array)], [1, 2, 3, 4]);
});

test("results go into the buffers that the caller gives", async () => {
  const program = await openReferenceEngine().load(affine());
  const buffer = new Float32Array(new SharedArrayBuffer(16));
  const results = await program.run({ x }, { y: { dtype: "float32", shape: [4], data: buffer } });
  assert.equal(results["y"]?.data, buffer);
  assert.deepEqual([...buffer], [2, 5, 10, 17]);
});

test("in float64 every float is a double", async () => {
  const program = await openReferenceEngine({ dtype: "float64" }).load(affine());
  const third = { dtype: "float64" as const, shape: [2, 2], data: Float64Array.of(1 / 3, 0, 0, 0) };
  const { y } = await program.run({ x: third });
  assert.equal(y?.dtype, "float64");
  assert.equal(y?.data[0], (1 / 3) * (1 / 3) + 1);
});

test("missing, misshapen and mistyped feeds are refused by name", async () => {
  const program = await openReferenceEngine().load(affine());
  await assert.rejects(program.run({}), /needs the input "x"/);
  await assert.rejects(
    program.run({ x: float32([4], [1, 2, 3, 4]) }),
    /input "x" of graph affine is float32\[2,2\], got float32\[4\]/,
  );
  const ints = { dtype: "int32" as const, shape: [2, 2], data: new Int32Array(4) };
  await assert.rejects(program.run({ x: ints }), /got int32\[2,2\]/);
  await assert.rejects(program.run({ x }, { y: float32([3], [0, 0, 0]) }), /its buffer is float32\[3\]/);
});

test("ids outside the table are refused instead of reading other memory", async () => {
  const builder = new GraphBuilder("lookup");
  const table = builder.input("table", "float32", [3, 2]);
  builder.output(builder.op("Embedding", [table, builder.input("ids", "int32", [1])]), "y");
  const program = await openReferenceEngine().load(builder.build());
  const feeds = (id: number) => ({
    table: float32([3, 2], [0, 1, 2, 3, 4, 5]),
    ids: { dtype: "int32" as const, shape: [1], data: Int32Array.of(id) },
  });
  assert.deepEqual([...((await program.run(feeds(2)))["y"]!.data as Float32Array)], [4, 5]);
  await assert.rejects(program.run(feeds(3)), /index 3 is outside 0\.\.2/);
});

test("labels beyond the classes are refused, directly and lowered", async () => {
  const builder = new GraphBuilder("loss");
  const logits = builder.input("logits", "float32", [1, 3]);
  builder.output(builder.op("SoftmaxCrossEntropy", [logits, builder.input("labels", "int32", [1])]), "loss");
  const labels = { dtype: "int32" as const, shape: [1], data: Int32Array.of(3) };
  for (const model of [builder.build(), lowerModel(builder.build())]) {
    const program = await openReferenceEngine().load(model);
    await assert.rejects(program.run({ logits: float32([1, 3], [0, 0, 0]), labels }), /3 is outside 0\.\.2/);
  }
});

test("a graph that uses what was never computed is refused when it is loaded", async () => {
  const model = { ...affine(), nodes: affine().nodes.slice(1) };
  await assert.rejects(openReferenceEngine().load(model), /before it is computed/);
});
