import assert from "node:assert/strict";
import test from "node:test";
import { GraphBuilder } from "./builder.ts";
import { costOf } from "./cost.ts";
import { lowerModel } from "./lower.ts";

test("a product counts two operations for each multiply-add, as a composite and lowered", () => {
  const builder = new GraphBuilder("product");
  const x = builder.input("x", "float32", [2, 3, 4]);
  builder.output(builder.op("Linear", [x, builder.input("w", "float32", [4, 5])]), "y");
  const expected = 2 * (2 * 3) * 4 * 5;
  assert.equal(costOf(builder.build()).flops, expected);
  assert.equal(costOf(lowerModel(builder.build())).flops, expected);
});

test("bytes count inputs, constants, outputs and the most that is alive at once", () => {
  const builder = new GraphBuilder("chain");
  const x = builder.input("x", "float32", [10]);
  const first = builder.op("Exp", [x]);
  const second = builder.op("Mul", [first, builder.scalar(2)]);
  builder.output(builder.op("Neg", [builder.op("Add", [second, first])]), "y");
  const cost = costOf(builder.build());
  assert.equal(cost.inputBytes, 40);
  assert.equal(cost.outputBytes, 40);
  assert.equal(cost.constantBytes, 4);
  // Exp, Mul and their sum are alive together; Neg needs only the sum.
  assert.equal(cost.peakBytes, 120);
  assert.equal(cost.flops, 40);
});
