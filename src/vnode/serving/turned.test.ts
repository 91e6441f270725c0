import assert from "node:assert/strict";
import { test } from "node:test";
import { float32 } from "../../core/tensor.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { turn, turnable, withTurned } from "./turned.ts";

test("a graph over turned weights computes the same, whatever else it does with them", async () => {
  const builder = new GraphBuilder("g");
  const x = builder.input("x", "float32", [2, 3]);
  const w = builder.input("w", "float32", [3, 4]);
  const both = builder.input("both", "float32", [3, 4]);
  builder.output(builder.op("Gemm", [x, w]), "product");
  builder.output(builder.op("Gemm", [x, both]), "other");
  builder.output(builder.op("Add", [both, both]), "sum");
  const graph = builder.build();
  assert.deepEqual([...turnable(graph, new Set(["w", "both"]))], ["w"]);
  const values = (count: number, from: number) => Float32Array.from({ length: count }, (_, i) => from + i);
  const executor = openInlineExecutor(openReferenceEngine());
  const shared = (shape: readonly number[], content: Float32Array) => {
    const { buffer, offset } = executor.allocate(content.byteLength);
    const data = new Float32Array(buffer, offset, content.length);
    data.set(content);
    return { dtype: "float32" as const, shape, data };
  };
  const feeds = {
    x: float32([2, 3], values(6, 1)),
    w: shared([3, 4], values(12, 2)),
    both: shared([3, 4], values(12, 3)),
  };
  const engine = openReferenceEngine();
  const expected = await (await engine.load(graph)).run(feeds);
  const turned = withTurned(graph, new Set(["w", "both"]));
  const results = await (await engine.load(turned)).run({
    ...feeds,
    w: await turn(feeds.w, executor, "turn"),
    both: await turn(feeds.both, executor, "turn"),
  });
  await executor.close();
  for (const name of ["product", "other", "sum"]) assert.deepEqual(results[name], expected[name], name);
});
