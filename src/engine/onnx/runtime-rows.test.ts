// A block of a served model in the runtime's own operators: few of them, the same function, and rows that do not depend on each other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fillNormal, randomKey } from "../../core/numbers/random.ts";
import { elementCount, float32, type Shape, type Tensor } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import { anyRows, shapeFor } from "../../graph/rows.ts";
import type { Engine } from "../engine.ts";
import { openReferenceEngine } from "../reference.ts";
import { rowProgramOf } from "../stage/row-program.ts";
import { directSessions } from "./direct.ts";
import { hasNativeEngine, openNativeEngine } from "./native.ts";
import { withRuntimeRows } from "./runtime-rows.ts";

const width = 32;

function block() {
  const graph = new GraphBuilder("block");
  const x = graph.input("a name.0>that is long", "float32", [anyRows, 1, width]);
  const scale = graph.input("scale", "float32", [width]);
  const [up, down] = [
    graph.input("up", "float32", [width, 4 * width]),
    graph.input("down", "float32", [2 * width, width]),
  ];
  const normed = graph.op("RmsNorm", [x, scale], { epsilon: 1e-3 });
  const gated = graph.op("SwiGlu", [graph.op("Linear", [normed, up])]);
  const made = graph.op("Linear", [graph.op("Silu", [gated]), down]);
  graph.output(graph.op("Add", [x, made]), "y");
  graph.output(normed, "normed");
  return graph.build();
}

function normal(name: string, shape: Shape): Tensor {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("rows", name), 1);
  return float32(shape, data);
}

const graph = block();
const weights = Object.fromEntries(graph.inputs.slice(1).map(({ name, shape }) => [name, normal(name, shape)]));

async function computed(engine: Engine, rows: number): Promise<readonly Tensor[]> {
  const program = (await engine.loadRows?.(graph, weights)) ?? rowProgramOf(engine, graph, weights);
  const into = graph.outputs.map(({ shape }) => float32(shapeFor(shape, rows), new Float32Array(rows * width)));
  await program.run([normal("x", [rows, 1, width])], into, rows);
  await program.release();
  return into;
}

test("norms and gates are one operator each, where the plain graph has seven", () => {
  const operators = withRuntimeRows(graph).nodes.map(({ op }) => op);
  for (const plain of ["ReduceMean", "Sqrt", "Reciprocal", "Sigmoid"]) assert.ok(!operators.includes(plain), plain);
  assert.equal(operators.filter((op) => op === "SimplifiedLayerNormalization").length, 1);
  assert.equal(operators.filter((op) => op === "QuickGelu").length, 2);
});

test("the runtime's operators give what ours mean", { skip: !hasNativeEngine() }, async () => {
  const [native, reference] = [await openNativeEngine(), openReferenceEngine()];
  for (const rows of [1, 8]) {
    const [found, expected] = [await computed(native, rows), await computed(reference, rows)];
    for (const [i, { data }] of expected.entries())
      for (const [at, value] of (data as Float32Array).entries())
        assert.ok(Math.abs((found[i]?.data[at] as number) - value) < 2e-5 * (1 + Math.abs(value)), `${i} at ${at}`);
  }
});

test("sessions of the installed runtime can be had without its front", { skip: !hasNativeEngine() }, () => {
  assert.ok(directSessions(), "single rows would be slower: look at direct.ts");
});
