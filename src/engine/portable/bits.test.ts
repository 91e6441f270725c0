// What the portable engine promises about bits: sums in a stated order, nothing that depends on tiles, strides, place in
// memory or who shares a batch, and one pattern for NaN.

import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import type { GraphModel } from "../../graph/model.ts";
import { float, naming, node, normal, numbers } from "../conformance.ts";
import type { Tensors } from "../engine.ts";
import { portableBits, portableClass } from "./bits.ts";
import { openPortableEngine } from "./engine.ts";
import { blockDepth } from "./gemm.ts";

const engine = openPortableEngine();
const engines = { "tiles of 12 columns": engine, "tiles of 16 columns": openPortableEngine({ tile: 4 }) };

async function run(graph: GraphModel, feeds: Tensors, by = engine): Promise<Tensors> {
  const program = await by.load(graph);
  try {
    return await program.run(feeds);
  } finally {
    await program.release();
  }
}

/** bias + alpha a b, rounded after every product and sum, k in blocks. */
function plainProduct(a: Tensor, b: Tensor, bias: Tensor, alpha: number): Float32Array {
  const [rows, depth] = a.shape as [number, number];
  const columns = b.shape[1] as number;
  const [x, w, start] = [a, b, bias].map(({ data }) => data) as [Float32Array, Float32Array, Float32Array];
  const y = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      let total = start[j] as number;
      for (let k0 = 0; k0 < depth; k0 += blockDepth) {
        let sum = 0;
        for (let k = k0; k < Math.min(depth, k0 + blockDepth); k++)
          sum = Math.fround(sum + Math.fround((x[i * depth + k] as number) * (w[k * columns + j] as number)));
        total = Math.fround(total + Math.fround(sum * Math.fround(alpha)));
      }
      y[i * columns + j] = total;
    }
  return y;
}

function transposed({ data, shape }: Tensor): Tensor {
  const [rows, columns] = shape as [number, number];
  const turned = Float32Array.from({ length: data.length }, (_, i) =>
    Number(data[(i % rows) * columns + Math.floor(i / rows)]),
  );
  return { dtype: "float32", shape: [columns, rows], data: turned };
}

for (const [rows, depth, columns] of [
  [1, 1, 1],
  [1, 7, 3],
  [1, 259, 13],
  [1, 1030, 2093],
  [4, 259, 13],
  [3, 256, 12],
  [7, 259, 13],
  [200, 31, 25],
  [5, 1030, 1550],
] as const)
  test(`a product of ${rows} x ${depth} x ${columns} has the bits of a plain loop, for any tile and strides`, async () => {
    const [a, b, bias] = [normal("a", [rows, depth]), normal("b", [depth, columns]), normal("bias", [columns])];
    const expected = plainProduct(a, b, bias, 0.37);
    for (const transA of [0, 1])
      for (const transB of [0, 1]) {
        const [left, right] = [transA ? transposed(a) : a, transB ? transposed(b) : b];
        const graph: GraphModel = {
          name: "product",
          inputs: [float("a", ...left.shape), float("b", ...right.shape), float("bias", columns)],
          outputs: [float("y", rows, columns)],
          nodes: [node("Gemm", ["a", "b", "bias"], "y", { transA, transB, alpha: 0.37 })],
          constants: {},
        };
        for (const [tile, by] of Object.entries(engines)) {
          const { y } = await run(graph, { a: left, b: right, bias }, by);
          deepStrictEqual(y?.data, expected, tile);
        }
      }
  });

/** A small transformer block with everything that mixes elements of a sample. */
function block(batch: number): GraphModel {
  const graph = new GraphBuilder("block");
  const x = graph.input("x", "float32", [batch, 2, 9, 6]);
  const [w, scale, shift] = [
    graph.input("w", "float32", [6, 11]),
    graph.input("scale", "float32", [11]),
    graph.input("shift", "float32", [11]),
  ];
  const mixed = graph.op("Attention", [x, x, x], { causal: 1 });
  const flat = graph.op("Reshape", [graph.op("Transpose", [mixed], { perm: [0, 2, 1, 3] })], { shape: [batch, 9, 12] });
  const wide = graph.op("Gelu", [graph.op("MatMul", [mixed, w])]);
  const level = graph.op("LayerNormalization", [wide, scale, shift], { axis: -1, epsilon: 1e-5 });
  graph.output(graph.op("LogSoftmax", [level], { axis: -1 }), "y");
  graph.output(graph.op("ReduceSum", [flat], { axes: [1], keepdims: 0 }), "sums");
  graph.output(graph.op("ReduceMean", [graph.op("Mul", [level, level])], { axes: [1, 3], keepdims: 0 }), "means");
  return graph.build();
}

test("a sample's results do not depend on who shares its batch", async () => {
  const weights = { w: normal("w", [6, 11]), scale: normal("scale", [11]), shift: normal("shift", [11]) };
  const all = normal("x", [5, 2, 9, 6]);
  const together = await run(block(5), { ...weights, x: all });
  const size = elementCount([2, 9, 6]);
  for (let sample = 0; sample < 5; sample++) {
    const data = all.data.slice(sample * size, (sample + 1) * size);
    const alone = await run(block(1), { ...weights, x: { dtype: "float32", shape: [1, 2, 9, 6], data } });
    for (const [name, tensor] of Object.entries(alone)) {
      const { length } = tensor.data;
      const whole = together[name]?.data as Float32Array;
      deepStrictEqual(tensor.data, whole.slice(sample * length, (sample + 1) * length), name);
    }
  }
});

test("NaN has one pattern in every output, however it came about", async () => {
  const graph: GraphModel = {
    name: "not a number",
    inputs: [float("x", 7)],
    outputs: [float("y", 7), float("z", 7), float("same", 7)],
    nodes: [node("Div", ["x", "x"], "y"), node("Log", ["x"], "z"), node("Identity", ["x"], "same")],
    constants: {},
  };
  const data = new Float32Array(7);
  const words = new Uint32Array(data.buffer);
  words.set([0, 0x80000000, 0xffc00001, 0x7f800001, 0x3f800000, 0xff812345, 0]);
  const results = await run(graph, { x: { dtype: "float32", shape: [7], data } });
  for (const [name, tensor] of Object.entries(results)) {
    const values = tensor.data as Float32Array;
    const bits = new Uint32Array(values.buffer, values.byteOffset, 7);
    for (const [i, value] of values.entries())
      if (Number.isNaN(value)) strictEqual(bits[i], 0x7fc00000, `${name}[${i}]`);
    strictEqual(Number.isNaN(values[2]), true, name);
  }
});

test("the same bits wherever tensors lie in memory", async () => {
  const shape: Shape = [33, 21];
  const graph: GraphModel = {
    name: "softmax",
    inputs: [float("x", ...shape)],
    outputs: [float("y", ...shape)],
    nodes: [node("Softmax", ["x"], "y", { axis: -1 })],
    constants: {},
  };
  const x = normal("x", shape);
  const program = await engine.load(graph);
  const apart = await program.run({ x });
  const room = engine.memory?.take(1 << 20) as { start: number };
  for (const shift of [0, 4, 12, 20]) {
    const place = (at: number) => new Float32Array(engine.memory?.buffer as SharedArrayBuffer, at, elementCount(shape));
    const [inside, y] = [place(room.start + shift), place(room.start + 65536 + 3 * shift)];
    inside.set(x.data);
    await program.run({ x: { ...x, data: inside } }, { y: { dtype: "float32", shape, data: y } });
    deepStrictEqual(new Uint8Array(bytesOf({ ...x, data: y })), new Uint8Array(bytesOf(apart["y"] as Tensor)));
  }
  await program.release();
});

test("an index out of range fails in the operator's words and leaves the program usable", async () => {
  const graph: GraphModel = {
    name: "lookup",
    inputs: [float("table", 4, 2), { name: "ids", dtype: "int32", shape: [3] }],
    outputs: [float("rows", 3, 2)],
    nodes: [node("Gather", ["table", "ids"], "rows", { axis: 0 })],
    constants: {},
  };
  const table = normal("table", [4, 2]);
  const ids = (...values: number[]): Tensor => ({ dtype: "int32", shape: [3], data: Int32Array.from(values) });
  const program = await engine.load(graph);
  await rejects(program.run({ table, ids: ids(0, 4, 1) }), naming("Gather", "index 4", "0..3"));
  await rejects(program.run({ table, ids: ids(0, -5, 1) }), naming("Gather", "index -5", "0..3"));
  const { rows } = await program.run({ table, ids: ids(-1, 0, 3) });
  deepStrictEqual(numbers(rows), [...table.data.slice(6), ...table.data.slice(0, 2), ...table.data.slice(6)]);
  await program.release();
});

test("the class carries the version of the bits and nothing else", async () => {
  strictEqual(await engine.numericsClass(), portableClass);
  strictEqual(portableClass, `portable-${portableBits}`);
});
