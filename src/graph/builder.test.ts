import assert from "node:assert/strict";
import test from "node:test";
import { float32 } from "../core/tensor.ts";
import { GraphBuilder } from "./builder.ts";
import { lowerModel } from "./lower.ts";
import { compositeOperators, findOperator } from "./operators/registry.ts";

function opsOf(builder: GraphBuilder): string[] {
  return builder.build().nodes.map((node) => node.op);
}

test("the same calls give the same graph, name by name", () => {
  const build = () => {
    const builder = new GraphBuilder("same");
    const x = builder.input("x", "float32", [2, 4]);
    builder.output(builder.op("Gelu", [builder.op("Add", [x, builder.scalar(1)])]), "y");
    return lowerModel(builder.build());
  };
  assert.deepEqual(build(), build());
});

test("equal nodes and equal constants are made once", () => {
  const builder = new GraphBuilder("once");
  const x = builder.input("x", "float32", [2]);
  const twice = [1, 1].map(() => builder.op("Mul", [x, builder.scalar(3)]));
  assert.equal(twice[0], twice[1]);
  builder.output(builder.op("Add", [twice[0]!, twice[1]!]), "y");
  assert.deepEqual(opsOf(builder), ["Mul", "Add"]);
});

test("constants with names of their own stay apart even when they are equal", () => {
  const builder = new GraphBuilder("apart");
  const ones = () => float32([2], [1, 1]);
  assert.notEqual(builder.constant(ones(), "scale_a").name, builder.constant(ones(), "scale_b").name);
});

test("reshapes and transposes that undo each other vanish", () => {
  const builder = new GraphBuilder("shapes");
  const x = builder.input("x", "float32", [2, 3, 4]);
  const there = builder.op("Reshape", [x], { shape: [6, -1] });
  const back = builder.op("Reshape", [there], { shape: [2, 3, 4] });
  const turned = builder.op("Transpose", [back], { perm: [2, 0, 1] });
  assert.equal(builder.op("Transpose", [turned], { perm: [1, 2, 0] }), x);
});

test("computations on constants are carried out while building", () => {
  const builder = new GraphBuilder("fold");
  const sum = builder.op("Add", [builder.scalar(2), builder.scalar(3)]);
  assert.equal(sum.constant?.data[0], 5);
  assert.equal(builder.nodes.length, 0);
});

test("an output that is an input, or has two names, is a copy", () => {
  const builder = new GraphBuilder("copies");
  const x = builder.input("x", "float32", [2]);
  const y = builder.op("Neg", [x]);
  builder.output(x, "same");
  builder.output(y, "a");
  builder.output(y, "b");
  const model = builder.build();
  assert.deepEqual(
    model.outputs.map(({ name }) => name),
    ["same", "a", "b"],
  );
  assert.deepEqual(
    model.nodes.map(({ op, outputs }) => `${op} ${outputs}`),
    ["Neg a", "Identity same", "Identity b"],
  );
});

test("nodes that no output needs are left out", () => {
  const builder = new GraphBuilder("dead");
  const x = builder.input("x", "float32", [2]);
  builder.op("Exp", [x]);
  builder.output(builder.op("Neg", [x]), "y");
  assert.deepEqual(opsOf(builder), ["Neg"]);
});

test("wrong shapes, dtypes and operators are refused with a sentence that names them", () => {
  const builder = new GraphBuilder("wrong");
  const x = builder.input("x", "float32", [2, 3]);
  const ids = builder.input("ids", "int32", [2]);
  assert.throws(() => builder.op("MatMul", [x, x]), /MatMul\(float32\[2,3\], float32\[2,3\]\): the inner sizes/);
  assert.throws(() => builder.op("Add", [x, ids]), /Add\(float32\[2,3\], int32\[2\]\): takes two inputs of one dtype/);
  assert.throws(() => builder.op("Reshape", [x], { shape: [4, 2] }), /cannot become \[4,2\]/);
  assert.throws(() => builder.op("Fourier", [x]), /operator "Fourier" is not known/);
  assert.throws(() => builder.input("x", "float32", []), /already has a value named "x"/);
});

test("lowering leaves no composite, and composites are found by type", () => {
  for (const { type, lower } of compositeOperators) {
    assert.ok(lower, type);
    assert.ok(findOperator(type));
  }
});
