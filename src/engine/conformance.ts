// What every engine must do alike. `engineConformance("native", openNativeEngine)` is the whole test of an engine;
// results are compared with naive loops within a tolerance, never with another engine's bits.

import { deepStrictEqual, match, notStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import { bytesOf, elementCount, type Shape, type Tensor } from "../core/tensor.ts";
import type { GraphModel, GraphNode, ValueInfo } from "../graph/model.ts";
import type { Engine, Tensors } from "./engine.ts";
import { sharedMemory } from "./kernels/kernels.ts";

export function normal(name: string, shape: Shape): Tensor & { data: Float32Array } {
  const data = new Float32Array(elementCount(shape));
  fillNormal(data, randomKey("conformance", name), 1);
  return { dtype: "float32", shape, data };
}

export const float = (name: string, ...shape: number[]): ValueInfo => ({ name, dtype: "float32", shape });

export function node(
  op: string,
  inputs: string[],
  output: string,
  attributes: GraphNode["attributes"] = {},
): GraphNode {
  return { op, name: output, inputs, outputs: [output], attributes };
}

/** relu(x w + b), and its row sums. */
export const layer: GraphModel = {
  name: "layer",
  inputs: [float("x", 5, 7), float("w", 7, 3), float("b", 3)],
  outputs: [float("y", 5, 3), float("sums", 5, 1)],
  nodes: [
    node("Gemm", ["x", "w", "b"], "z"),
    node("Relu", ["z"], "y"),
    node("ReduceSum", ["y"], "sums", { axes: [1], keepdims: 1 }),
  ],
  constants: {},
};

export const layerFeeds = (): Tensors => ({ x: normal("x", [5, 7]), w: normal("w", [7, 3]), b: normal("b", [3]) });

/** The layer as loops in doubles. */
export function plainLayer(feeds: Tensors): { y: number[]; sums: number[] } {
  const [x, w, b] = ["x", "w", "b"].map((name) => feeds[name]?.data) as [Float32Array, Float32Array, Float32Array];
  const y: number[] = [];
  const sums: number[] = [];
  for (let row = 0; row < 5; row++) {
    let sum = 0;
    for (let column = 0; column < 3; column++) {
      let z = b[column] as number;
      for (let k = 0; k < 7; k++) z += (x[row * 7 + k] as number) * (w[k * 3 + column] as number);
      y.push(Math.max(z, 0));
      sum += Math.max(z, 0);
    }
    sums.push(sum);
  }
  return { y, sums };
}

export function numbers(tensor: Tensor | undefined): number[] {
  return Array.from((tensor as Tensor).data as Float32Array);
}

export function close(actual: Tensor | undefined, expected: readonly number[], tolerance = 1e-5): void {
  const values = numbers(actual);
  strictEqual(values.length, expected.length);
  for (const [i, value] of expected.entries()) {
    const difference = Math.abs((values[i] as number) - value);
    strictEqual(difference <= tolerance * (1 + Math.abs(value)), true, `element ${i}: ${values[i]}, expected ${value}`);
  }
}

/** A failure that names what it is about. */
export function naming(...words: string[]): (thrown: Error) => boolean {
  return (thrown) => {
    for (const word of words) match(thrown.message, new RegExp(word.replaceAll(/[[\]]/g, "\\$&")));
    return true;
  };
}

export interface ConformanceOptions {
  /** Shading languages allow a GPU to flush them to zero; which one does is a part of its class. */
  readonly denormals?: "kept" | "kept or flushed";
}

export function engineConformance(
  name: string,
  open: () => Promise<Engine> | Engine,
  { denormals = "kept" }: ConformanceOptions = {},
): void {
  describe(`engine ${name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await open();
    });
    after(() => engine.close());

    async function once(graph: GraphModel, feeds: Tensors, into?: Tensors): Promise<Tensors> {
      const program = await engine.load(graph);
      try {
        return await program.run(feeds, into);
      } finally {
        await program.release();
      }
    }

    test("computes a layer as plain loops do", async () => {
      const result = await once(layer, layerFeeds());
      const expected = plainLayer(layerFeeds());
      close(result["y"], expected.y);
      close(result["sums"], expected.sums);
      deepStrictEqual(result["y"]?.shape, [5, 3]);
      strictEqual(result["y"]?.dtype, "float32");
    });

    test("gives the same bits every time, from the same program and from another", async () => {
      const program = await engine.load(layer);
      const first = await program.run(layerFeeds());
      const second = await program.run(layerFeeds());
      await program.release();
      const third = await once(layer, layerFeeds());
      for (const again of [second, third])
        for (const output of ["y", "sums"])
          deepStrictEqual(bytesOf(again[output] as Tensor), bytesOf(first[output] as Tensor));
    });

    test("reads and writes views of shared memory, between other bytes that stay as they are", async () => {
      const memory = sharedMemory(4096).buffer as unknown as SharedArrayBuffer;
      const everything = new Float32Array(memory);
      everything.fill(-7);
      const w: Tensor = { dtype: "float32", shape: [7, 3], data: new Float32Array(memory, 64, 21) };
      (w.data as Float32Array).set(layerFeeds()["w"]?.data as Float32Array);
      const y: Tensor = { dtype: "float32", shape: [5, 3], data: new Float32Array(memory, 512, 15) };
      const result = await once(layer, { ...layerFeeds(), w }, { y });
      strictEqual(result["y"]?.data, y.data);
      close(y, plainLayer(layerFeeds()).y);
      close(result["sums"], plainLayer(layerFeeds()).sums);
      strictEqual(everything[512 / 4 - 1], -7);
      strictEqual(everything[512 / 4 + 15], -7);
    });

    test("does not change what it is fed", async () => {
      const feeds = layerFeeds();
      await once(layer, feeds);
      deepStrictEqual(feeds, layerFeeds());
    });

    test("keeps whole numbers and conditions exact", async () => {
      const graph: GraphModel = {
        name: "lookup",
        inputs: [float("table", 4, 2), { name: "ids", dtype: "int32", shape: [3] }, float("a", 3)],
        outputs: [float("rows", 3, 2), { name: "isLarge", dtype: "bool", shape: [3] }],
        nodes: [node("Gather", ["table", "ids"], "rows", { axis: 0 }), node("Greater", ["a", "one"], "isLarge")],
        constants: { one: { dtype: "float32", shape: [], data: Float32Array.of(1) } },
      };
      const table = normal("table", [4, 2]);
      const result = await once(graph, {
        table,
        ids: { dtype: "int32", shape: [3], data: Int32Array.of(2, 0, 2) },
        a: { dtype: "float32", shape: [3], data: Float32Array.of(0.5, 1, 1.5) },
      });
      const row = (index: number) => [...table.data.subarray(index * 2, index * 2 + 2)];
      deepStrictEqual(numbers(result["rows"]), [...row(2), ...row(0), ...row(2)]);
      deepStrictEqual(numbers(result["isLarge"]), [0, 0, 1]);
    });

    test("runs graphs with constants, and several programs side by side", async () => {
      const scaled = (factor: number): GraphModel => ({
        name: `times ${factor}`,
        inputs: [float("x", 2)],
        outputs: [float("y", 2)],
        nodes: [node("Mul", ["x", "factor"], "y")],
        constants: { factor: { dtype: "float32", shape: [1], data: Float32Array.of(factor) } },
      });
      const programs = await Promise.all([2, 3, 5].map((factor) => engine.load(scaled(factor))));
      const x: Tensor = { dtype: "float32", shape: [2], data: Float32Array.of(1, -4) };
      const results = await Promise.all(programs.map((program) => program.run({ x })));
      deepStrictEqual(
        results.map((result) => numbers(result["y"])),
        [
          [2, -8],
          [3, -12],
          [5, -20],
        ],
      );
      await Promise.all(programs.map((program) => program.release()));
    });

    test(`denormals are ${denormals}`, async () => {
      const graph: GraphModel = {
        name: "halve",
        inputs: [float("x", 1), float("half", 1)],
        outputs: [float("y", 1)],
        nodes: [node("Mul", ["x", "half"], "y")],
        constants: {},
      };
      const one = (value: number): Tensor => ({ dtype: "float32", shape: [1], data: Float32Array.of(value) });
      const result = await once(graph, { x: one(2e-40), half: one(0.5) });
      const half = Math.fround(Math.fround(2e-40) / 2);
      const allowed = denormals === "kept" ? [half] : [half, 0];
      strictEqual(allowed.includes(numbers(result["y"])[0] as number), true);
    });

    test("refuses missing feeds, wrong types and wrong shapes, and names them", async () => {
      const program = await engine.load(layer);
      const { x, w, b } = layerFeeds() as { x: Tensor; w: Tensor; b: Tensor };
      await rejects(program.run({ x, w }), naming("layer", '"b"', "missing"));
      await rejects(program.run({ x, w, b: { ...b, shape: [1, 3] } }), naming("layer", '"b"', "[1,3]", "[3]"));
      const whole: Tensor = { dtype: "int32", shape: [3], data: new Int32Array(3) };
      await rejects(program.run({ x, w, b: whole }), naming("layer", '"b"', "int32", "float32"));
      await rejects(
        program.run({ x, w, b: { ...b, data: new Float32Array(2) } }),
        naming("layer", '"b"', "2 elements"),
      );
      await rejects(program.run({ x, w, b }, { z: b }), naming("layer", '"z"'));
      close((await program.run({ x, w, b }))["y"], plainLayer({ x, w, b }).y);
      await program.release();
    });

    test("refuses a graph it cannot run, and names it", async () => {
      const graph: GraphModel = { ...layer, name: "broken", nodes: [node("NoSuchOperator", ["x"], "y")] };
      await rejects(async () => engine.load(graph), naming("NoSuchOperator"));
    });

    test("has a numerics class that repeats", async () => {
      const first = await engine.numericsClass();
      match(first, new RegExp(`^${engine.kind}`));
      strictEqual(await engine.numericsClass(), first);
      notStrictEqual(first, engine.kind === "reference" ? "" : engine.kind);
    });
  });
}
