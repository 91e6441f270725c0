// The oracle of all operator tests: a composite equals its lowered form, derivatives equal finite differences in
// double precision, and ONNX Runtime and our portable engine compute what the reference computes, forward and backward.

import assert from "node:assert/strict";
import test from "node:test";
import * as native from "onnxruntime-node";
import { elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import type { Tensors } from "../../engine/engine.ts";
import { openPortableEngine } from "../../engine/portable/engine.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { GraphBuilder, type Value } from "../builder.ts";
import { deriveBackward } from "../derive.ts";
import { lowerModel } from "../lower.ts";
import type { Attribute, GraphModel } from "../model.ts";
import { encodeOnnx } from "../onnx.ts";

export interface FloatInput {
  readonly shape: Shape;
  readonly from?: number;
  readonly to?: number;
  /** False: no gradient is asked for. */
  readonly gradient?: boolean;
}

export interface IntInput {
  readonly shape: Shape;
  readonly ints: readonly number[];
}

export interface BoolInput {
  readonly shape: Shape;
  readonly bools: readonly number[];
}

export interface OperatorCase {
  readonly inputs: readonly (Shape | FloatInput | IntInput | BoolInput)[];
  readonly attributes?: Readonly<Record<string, Attribute>>;
  /** How many outputs to ask for; the derivative is taken of the first `differentiated`. */
  readonly outputs?: number;
  readonly differentiated?: number;
  /** Relative to 1 + the largest magnitude. */
  readonly runtimeTolerance?: number;
}

/** One test for each case. */
export function checkOperator(type: string, cases: readonly OperatorCase[]): void {
  for (const [i, operatorCase] of cases.entries())
    test(`${type} equals its lowered form, finite differences and ONNX Runtime (case ${i + 1})`, () =>
      checkCase(type, operatorCase));
}

/** Forward only, for operators that derivatives use but that have none. */
export function checkForward(type: string, cases: readonly OperatorCase[]): void {
  for (const [i, operatorCase] of cases.entries())
    test(`${type} computes what ONNX Runtime computes (case ${i + 1})`, async () => {
      const { model, feeds } = buildCase(type, operatorCase);
      await compareRuntimes(model, feeds, operatorCase.runtimeTolerance ?? 1e-5, []);
    });
}

async function checkCase(type: string, operatorCase: OperatorCase): Promise<void> {
  const { model, feeds, differentiable } = buildCase(type, operatorCase);
  const double = openReferenceEngine({ dtype: "float64" });
  const direct = await (await double.load(model)).run(feeds);
  const lowered = await (await double.load(lowerModel(model))).run(feeds);
  for (const { name } of model.outputs)
    assertClose(lowered[name] as Tensor, direct[name] as Tensor, 1e-6, `lowered ${name}`);
  await checkDerivative(model, feeds, differentiable, operatorCase.differentiated ?? 1);
  await compareRuntimes(model, feeds, operatorCase.runtimeTolerance ?? 1e-5, differentiable);
}

export function buildCase(type: string, { inputs, attributes = {}, outputs = 1 }: OperatorCase) {
  const builder = new GraphBuilder(type);
  const feeds: Record<string, Tensor> = {};
  const differentiable: string[] = [];
  const random = seededRandom(type.length + inputs.length);
  const values = inputs.map((given, i): Value => {
    const name = `x${i}`;
    const input = (Array.isArray(given) ? { shape: given } : given) as FloatInput | IntInput | BoolInput;
    if ("ints" in input) {
      feeds[name] = { dtype: "int32", shape: input.shape, data: Int32Array.from(input.ints) };
      return builder.input(name, "int32", input.shape);
    }
    if ("bools" in input) {
      feeds[name] = { dtype: "bool", shape: input.shape, data: Uint8Array.from(input.bools) };
      return builder.input(name, "bool", input.shape);
    }
    const { from = -1, to = 1, gradient = true } = input;
    const data = Float32Array.from({ length: elementCount(input.shape) }, () => from + (to - from) * random());
    feeds[name] = { dtype: "float32", shape: input.shape, data };
    if (gradient) differentiable.push(name);
    return builder.input(name, "float32", input.shape);
  });
  for (const [i, value] of builder.ops(type, values, attributes, outputs).entries()) builder.output(value, `y${i}`);
  return { model: builder.build(), feeds, differentiable };
}

/** Derivatives of sum(outputs * seeds) for fixed random seeds, against central differences. */
export async function checkDerivative(
  model: GraphModel,
  feeds: Tensors,
  of: readonly string[],
  outputCount = 1,
): Promise<void> {
  const from = model.outputs.slice(0, outputCount).map((output) => output.name);
  const derived = deriveBackward(model, { gradientsOf: of, from });
  const engine = openReferenceEngine({ dtype: "float64" });
  const doubles = inDoubles(feeds);
  const seeds = seedsOf(model, from);
  const saved = await (await engine.load(derived.forward)).run(doubles);
  const all: Tensors = { ...doubles, ...saved, ...seeds };
  const gradients = await (await engine.load(derived.backward)).run(pick(all, derived.backward));
  const program = await engine.load(model);
  const objective = async (given: Tensors) => {
    const outputs = await program.run(given);
    return from.reduce((sum, name) => sum + dot(outputs[name] as Tensor, seeds[`grad:${name}`] as Tensor), 0);
  };
  for (const name of of) {
    const rows = derived.sparse.filter(({ parameter }) => parameter === name);
    const table = doubles[name] as Tensor;
    const total = Float64Array.from(
      (gradients[`grad:${name}`]?.data as Float64Array) ?? new Float64Array(table.data.length),
    );
    for (const { ids, gradient } of rows)
      addRows(total, table.shape[1] as number, doubles[ids] as Tensor, gradients[gradient] as Tensor);
    await compareDifferences(name, total, doubles, objective);
  }
}

/** More would only repeat what the first ones show. */
const elementsChecked = 48;

async function compareDifferences(
  name: string,
  gradient: Float64Array,
  feeds: Record<string, Tensor>,
  objective: (feeds: Tensors) => Promise<number>,
): Promise<void> {
  const tensor = feeds[name] as Tensor;
  const stride = Math.max(1, Math.ceil(tensor.data.length / elementsChecked));
  for (let i = 0; i < tensor.data.length; i += stride) {
    const difference = 1e-5;
    const at = async (change: number) => {
      const data = Float64Array.from(tensor.data as Float64Array);
      data[i] = (data[i] as number) + change;
      return objective({ ...feeds, [name]: { ...tensor, data } });
    };
    const expected = ((await at(difference)) - (await at(-difference))) / (2 * difference);
    const actual = gradient[i] as number;
    assert.ok(
      Math.abs(actual - expected) <= 1e-5 * (1 + Math.abs(expected)),
      `gradient of ${name}[${i}]: derived ${actual}, finite difference ${expected}`,
    );
  }
}

const portable = openPortableEngine();

/** The reference in single precision against ONNX Runtime and the portable engine, with gradients of the inputs in `of`. */
export async function compareRuntimes(
  model: GraphModel,
  feeds: Tensors,
  tolerance: number,
  of: readonly string[],
): Promise<void> {
  await compareOutputs(model, feeds, tolerance);
  if (of.length === 0) return;
  const first = model.outputs[0]?.name as string;
  const { forward, backward } = deriveBackward(model, { gradientsOf: of, from: [first] });
  const saved = await (await openReferenceEngine().load(forward)).run(feeds);
  await compareOutputs(forward, feeds, tolerance);
  const all = { ...feeds, ...saved, ...inSingles(seedsOf(model, [first])) };
  await compareOutputs(backward, pick(all, backward), tolerance);
}

async function compareOutputs(model: GraphModel, feeds: Tensors, tolerance: number): Promise<void> {
  const expected = await (await openReferenceEngine().load(model)).run(feeds);
  const actual = { native: await runOnnx(model, feeds), portable: await runPortable(model, feeds) };
  for (const [engine, outputs] of Object.entries(actual))
    for (const { name } of model.outputs)
      assertClose(outputs[name] as Tensor, expected[name] as Tensor, tolerance, `${engine} ${name}`);
}

async function runPortable(model: GraphModel, feeds: Tensors): Promise<Tensors> {
  const program = await portable.load(model);
  try {
    return await program.run(feeds);
  } finally {
    await program.release();
  }
}

export async function runOnnx(model: GraphModel, feeds: Tensors): Promise<Tensors> {
  const { InferenceSession, Tensor: OrtTensor } = native;
  const session = await InferenceSession.create(encodeOnnx(lowerModel(model)), {
    graphOptimizationLevel: "disabled",
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  const given = Object.fromEntries(
    model.inputs.map(({ name, dtype, shape }) => {
      const { data } = feeds[name] as Tensor;
      return [name, new OrtTensor(dtype as "float32", data as Float32Array, [...shape])];
    }),
  );
  const results = await session.run(given);
  await session.release();
  return Object.fromEntries(
    model.outputs.map(({ name, dtype, shape }) => {
      const { dims, data } = results[name] as native.Tensor;
      assert.deepEqual([...dims], [...shape], `shape of ${name}`);
      return [name, { dtype, shape, data: data as Float32Array }];
    }),
  );
}

export function assertClose(actual: Tensor, expected: Tensor, tolerance: number, what: string): void {
  assert.deepEqual([...actual.shape], [...expected.shape], `shape of ${what}`);
  const size = 1 + Math.max(0, ...Array.from(expected.data as Float32Array, (value) => Math.abs(Number(value))));
  for (let i = 0; i < expected.data.length; i++) {
    const difference = Math.abs(Number(actual.data[i]) - Number(expected.data[i]));
    assert.ok(difference <= tolerance * size, `${what}[${i}]: ${actual.data[i]}, expected ${expected.data[i]}`);
  }
}

/** A small generator of its own: tests must not depend on what they test. */
export function seededRandom(seed: number): () => number {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function pick(tensors: Tensors, model: GraphModel): Tensors {
  return Object.fromEntries(model.inputs.map(({ name }) => [name, tensors[name] as Tensor]));
}

function seedsOf(model: GraphModel, names: readonly string[]): Record<string, Tensor> {
  const random = seededRandom(7);
  const seeds: Record<string, Tensor> = {};
  for (const { name, shape } of model.outputs)
    if (names.includes(name)) {
      const data = Float64Array.from({ length: elementCount(shape) }, () => Math.fround(2 * random() - 1));
      seeds[`grad:${name}`] = { dtype: "float64", shape, data };
    }
  return seeds;
}

function inDoubles(tensors: Tensors): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) =>
      tensor.dtype === "float32"
        ? [name, { ...tensor, dtype: "float64", data: Float64Array.from(tensor.data as Float32Array) }]
        : [name, tensor],
    ),
  );
}

function inSingles(tensors: Tensors): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => [
      name,
      { ...tensor, dtype: "float32", data: Float32Array.from(tensor.data as Float64Array) },
    ]),
  );
}

function dot(a: Tensor, b: Tensor): number {
  return Array.from(a.data as Float64Array).reduce((sum, value, i) => sum + value * (b.data[i] as number), 0);
}

function addRows(total: Float64Array, width: number, ids: Tensor, rows: Tensor): void {
  for (let i = 0; i < ids.data.length; i++)
    for (let j = 0; j < width; j++) {
      const at = Number(ids.data[i]) * width + j;
      total[at] = (total[at] as number) + (rows.data[i * width + j] as number);
    }
}

test("the oracle notices a derivative that is wrong by a thousandth", async () => {
  const feeds = { x: { dtype: "float64" as const, shape: [2], data: Float64Array.of(1, 2) } };
  const square = async ({ x }: Tensors) => dot(x as Tensor, x as Tensor);
  await compareDifferences("x", Float64Array.of(2, 4), feeds, square);
  await assert.rejects(compareDifferences("x", Float64Array.of(2, 4.004), feeds, square), /gradient of x\[1\]/);
});
