// The rewrites of graphs (merge.ts, fuse.ts, schedule.ts, saving.ts) change cost, never results.

import assert from "node:assert/strict";
import test from "node:test";
import { elementCount, type Tensor } from "../core/tensor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { GraphBuilder, type Value } from "./builder.ts";
import { costOf } from "./cost.ts";
import { fuseSums } from "./fuse.ts";
import { mergeLinears } from "./merge.ts";
import type { GraphModel } from "./model.ts";
import { assertClose, seededRandom } from "./operators/oracle.test.ts";
import { chooseSaved } from "./saving.ts";
import { justInTime, reducersFirst } from "./schedule.ts";

async function assertSameResults(before: GraphModel, after: GraphModel): Promise<void> {
  const random = seededRandom(2);
  const feeds = Object.fromEntries(
    before.inputs.map(({ name, shape }): [string, Tensor] => [
      name,
      { dtype: "float32", shape, data: Float32Array.from({ length: elementCount(shape) }, () => random() - 0.5) },
    ]),
  );
  const engine = openReferenceEngine();
  const expected = await (await engine.load(before)).run(feeds);
  const actual = await (await engine.load(after)).run(feeds);
  for (const { name } of before.outputs) assertClose(actual[name] as Tensor, expected[name] as Tensor, 1e-6, name);
}

function threeHeads(bias: boolean, transposed: number): GraphModel {
  const builder = new GraphBuilder("heads");
  const x = builder.input("x", "float32", [2, 3, 4]);
  for (const [i, columns] of [2, 3, 2].entries()) {
    const inputs = [x, builder.input(`w${i}`, "float32", transposed ? [columns, 4] : [4, columns])];
    if (bias) inputs.push(builder.input(`b${i}`, "float32", [columns]));
    builder.output(builder.op("Linear", inputs, { transposed }), `y${i}`);
  }
  return builder.build();
}

for (const [bias, transposed] of [
  [true, 0],
  [false, 1],
] as const)
  test(`narrow products of one input become one, with the same results (bias ${bias}, transposed ${transposed})`, async () => {
    const model = threeHeads(bias, transposed);
    const merged = mergeLinears(model);
    assert.equal(merged.nodes.filter(({ op }) => op === "Linear").length, 1);
    await assertSameResults(model, merged);
  });

test("products whose weights are computed are left alone", () => {
  const builder = new GraphBuilder("computed");
  const x = builder.input("x", "float32", [2, 4]);
  for (const i of [0, 1]) {
    const weight = builder.op("Neg", [builder.input(`w${i}`, "float32", [4, 2])]);
    builder.output(builder.op("Linear", [x, weight]), `y${i}`);
  }
  const model = builder.build();
  assert.equal(mergeLinears(model), model);
});

test("a sum of products is accumulated inside the products, also through reshapes", async () => {
  const builder = new GraphBuilder("sums");
  const product = (i: number) => {
    const a = builder.input(`a${i}`, "float32", [6, 4]);
    const b = builder.input(`b${i}`, "float32", [4, 5]);
    return builder.op("Reshape", [builder.op("Gemm", [a, b])], { shape: [2, 3, 5] });
  };
  const sum = [1, 2].reduce((total: Value, i) => builder.op("Add", [total, product(i)]), product(0));
  builder.output(sum, "y");
  const model = builder.build();
  const fused = fuseSums(model);
  assert.deepEqual(
    fused.nodes.map(({ op }) => op),
    ["Gemm", "Gemm", "Gemm", "Reshape"],
  );
  await assertSameResults(model, fused);
});

test("a product that others use too is not accumulated into", () => {
  const builder = new GraphBuilder("shared");
  const a = builder.input("a", "float32", [2, 2]);
  const product = builder.op("Gemm", [a, a]);
  builder.output(builder.op("Add", [a, product]), "y");
  builder.output(builder.op("Exp", [product]), "z");
  assert.ok(fuseSums(builder.build()).nodes.some(({ op }) => op === "Add"));
});

test("what turns much into little runs early, so that less is alive at once", async () => {
  const builder = new GraphBuilder("early");
  const x = builder.input("x", "float32", [64]);
  const wide = [1, 2, 3].map((factor) =>
    builder.op("Expand", [builder.op("Mul", [x, builder.scalar(factor)])], { shape: [32, 64] }),
  );
  const sums = wide.map((value) => builder.op("ReduceSum", [value], { axes: [0], keepdims: 0 }));
  builder.output(builder.op("Sum", sums), "y");
  const model = builder.build();
  const reordered = reducersFirst(model);
  assert.ok(costOf(reordered).peakBytes < costOf(model).peakBytes / 2);
  await assertSameResults(model, reordered);
});

test("just in time keeps every node after what it needs", () => {
  const node = (name: string, ...inputs: string[]) => ({ op: "Neg", name, inputs, outputs: [name], attributes: {} });
  const order = justInTime(
    [node("d", "b"), node("e", "c", "d")],
    [node("a", "x"), node("b", "a"), node("c", "a"), node("f", "e")],
  );
  assert.deepEqual(
    order.map(({ name }) => name),
    ["a", "b", "d", "c", "e", "f"],
  );
});

test("the saved set is the cheapest of all, by trying every one", () => {
  const random = seededRandom(11);
  for (let round = 0; round < 40; round++) {
    const builder = new GraphBuilder("random");
    const values: Value[] = [builder.input("x", "float32", [2, 2])];
    for (let i = 0; i < 7; i++) {
      const any = () => values[Math.floor(random() * values.length)] as Value;
      const op = ["Gemm", "Add", "Exp", "Mul"][Math.floor(random() * 4)] as string;
      values.push(builder.op(op, op === "Exp" ? [any()] : [any(), any()]));
    }
    const { nodes } = builder;
    const produced = nodes.map(({ outputs }) => outputs[0] as string);
    const needed = new Set(produced.filter(() => random() < 0.4));
    const saved = chooseSaved({ nodes, needed, infoOf: (name) => builder.valueOf(name) });
    const suffices = (set: ReadonlySet<string>) => {
      const known = (name: string): boolean => {
        const node = nodes.find(({ outputs }) => outputs[0] === name);
        return node === undefined || set.has(name) || (node.op !== "Gemm" && node.inputs.every(known));
      };
      return [...needed].every(known);
    };
    assert.ok(suffices(new Set(saved)), `round ${round}: what is saved suffices`);
    for (let bits = 0; bits < 1 << produced.length; bits++) {
      const set = new Set(produced.filter((_, i) => bits & (1 << i)));
      if (set.size < saved.length)
        assert.ok(!suffices(set), `round ${round}: ${saved} is not the cheapest, ${[...set]} is`);
    }
  }
});
