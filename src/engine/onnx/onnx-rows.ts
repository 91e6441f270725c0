// Graphs for any number of rows on ONNX Runtime: one session with open sizes, weights inside it. The runtime then packs the
// weights once, which makes single rows fast and, for most of its kernels, a row's bits independent of the others. That is
// not documented, so every graph is tried when it is loaded, and the smallest number of rows is used for which it holds.

import type { InferenceSession, Tensor as OrtTensor } from "onnxruntime-common";
import { Recent } from "../../core/caches/recent.ts";
import { fail } from "../../core/errors.ts";
import { bytesOf, elementCount, type Tensor, tensorBytes } from "../../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../../graph/model.ts";
import { encodeOnnxParts } from "../../graph/onnx.ts";
import { joined } from "../../graph/protobuf-write.ts";
import { openRows, shapeFor } from "../../graph/rows.ts";
import type { Tensors } from "../engine.ts";
import type { RowProgram } from "../stage/row-program.ts";
import type { OnnxRuntime, OutputHandling } from "./onnx-runtime.ts";
import { isOnlyUnread, unreadFront, unreadOutput } from "./unread-outputs.ts";

/** Below it the copies that the runtime hands back cost less than what avoids them. */
const unreadBytesMin = 1 << 16;

/** Rows come in multiples of the first of these for which no row's bits depend on the others. */
const multiples = [1, 2, 4, 8] as const;

/** What is tried: as many rows as a short prompt, in every split that answers bring. */
const probeRows = 24;
const probeSplits = [1, 2, 3, 4, 5, 8, 16];

export interface RowsRuntime {
  readonly runtime: OnnxRuntime;
  readonly options: InferenceSession.SessionOptions;
  readonly outputs: OutputHandling;
}

export async function onnxRowProgram(given: RowsRuntime, graph: GraphModel, weights: Tensors): Promise<RowProgram> {
  const inputs = graph.inputs.filter(({ name }) => !(name in weights));
  const session = await sessionOf(given, { ...graph, inputs, constants: { ...graph.constants, ...weights } });
  return sessionProgram(given, session, { ...graph, inputs });
}

async function sessionOf({ runtime, options, outputs }: RowsRuntime, graph: GraphModel): Promise<InferenceSession> {
  const parts = encodeOnnxParts(openRows(graph));
  const bytes = joined(outputs === "unread" ? [unreadFront(), ...parts] : parts, passingBytes);
  try {
    return await runtime.InferenceSession.create(bytes, options);
  } finally {
    letGo(bytes);
  }
}

/** Apart from what loads the session: a function that is kept keeps everything that stands where it was written, weights among it. */
async function sessionProgram(
  { runtime, outputs }: RowsRuntime,
  session: InferenceSession,
  graph: GraphModel,
): Promise<RowProgram> {
  const run = async (feeds: Tensors, into: Tensors, rows: number): Promise<void> => {
    const size = graph.outputs.reduce((sum, { dtype, shape }) => sum + tensorBytes(dtype, shapeFor(shape, rows)), 0);
    const isUnread = outputs === "unread" && size >= unreadBytesMin;
    const given = tensorsOf(runtime, graph.inputs, feeds);
    const fetches = outputs === "copied" ? undefined : tensorsOf(runtime, graph.outputs, into);
    try {
      const results = await session.run(given, isUnread ? { [unreadOutput]: null, ...fetches } : (fetches ?? {}));
      if (outputs === "copied")
        for (const { name } of graph.outputs)
          ((into[name] as Tensor).data as Float32Array).set((results[name] as OrtTensor).data as Float32Array);
    } catch (thrown) {
      if (!isUnread || !isOnlyUnread(thrown)) throw thrown;
    }
  };
  const key = structureOf(graph);
  const multiple = tried.get(key) ?? (await smallestMultiple(graph, graph.inputs, run));
  if (multiple !== undefined) tried.set(key, multiple);
  if (multiple === undefined) {
    await session.release();
    fail(
      "failed_precondition",
      `graph "${graph.name}": rows change each other's last bits on this machine, which cannot serve it. Use portable numerics`,
    );
  }
  const padded = (rows: number) => Math.ceil(rows / multiple) * multiple;
  return { padded, keepsWeights: false, run, release: () => session.release() };
}

/**
 * Memory of its own, which goes back to the machine at once. From the C library's heap it would lie between what the runtime keeps, and stay
 * with the process for ever: a model took twice its weights.
 */
function passingBytes(bytes: number): Uint8Array {
  return new Uint8Array(new ArrayBuffer(bytes, { maxByteLength: bytes }));
}

function letGo({ buffer }: Uint8Array): void {
  (buffer as ArrayBuffer).resize(0);
}

/** Layers of one model are alike: what holds for one holds for all, since no kernel looks at the numbers. */
const triedMax = 256;
const tried = new Recent<string, number>(triedMax);

/** Operators, sizes and how they hang together, without names. */
function structureOf({ inputs, outputs, nodes, constants }: GraphModel): string {
  const numbers = new Map<string, number>();
  const number = (name: string) => {
    const known = numbers.get(name) ?? numbers.size;
    numbers.set(name, known);
    return known;
  };
  const values = [...inputs, ...outputs].map(({ name, dtype, shape }) => [number(name), dtype, shape]);
  const fixed = Object.entries(constants).map(([name, { dtype, shape }]) => [number(name), dtype, shape]);
  const steps = nodes.map((node) => [node.op, node.inputs.map(number), node.outputs.map(number), node.attributes]);
  return JSON.stringify([values, fixed, steps]);
}

function tensorsOf(runtime: OnnxRuntime, infos: readonly ValueInfo[], tensors: Tensors): Record<string, OrtTensor> {
  const result: Record<string, OrtTensor> = {};
  for (const { name } of infos) result[name] = tensorOf(runtime, tensors[name] as Tensor);
  return result;
}

/** Stages give the same tensor for the same place: what it is for the runtime is made once. */
const made = new WeakMap<Tensor, OrtTensor>();

function tensorOf(runtime: OnnxRuntime, tensor: Tensor): OrtTensor {
  const known = made.get(tensor);
  if (known !== undefined) return known;
  const { dtype, data, shape } = tensor;
  const fresh = new runtime.Tensor(dtype as OrtTensor.Type, data as OrtTensor.DataType, shape);
  made.set(tensor, fresh);
  return fresh;
}

type Run = (feeds: Tensors, into: Tensors, rows: number) => Promise<void>;

async function smallestMultiple(
  graph: GraphModel,
  inputs: readonly ValueInfo[],
  run: Run,
): Promise<number | undefined> {
  const feeds = Object.fromEntries(inputs.map((info) => [info.name, probeTensor(info)]));
  const part = async (from: number, rows: number): Promise<Tensors> => {
    const into = Object.fromEntries(graph.outputs.map((info) => [info.name, emptyTensor(info, rows)]));
    const given = Object.fromEntries(inputs.map((info) => [info.name, rowsFrom(info, feeds, from, rows)]));
    await run(given, into, rows);
    return into;
  };
  const whole = await part(0, probeRows);
  const isSame = async (rows: number): Promise<boolean> => {
    for (let from = 0; from + rows <= probeRows; from += rows) {
      const found = await part(from, rows);
      for (const info of graph.outputs)
        if (!sameBytes(found[info.name] as Tensor, rowsFrom(info, whole, from, rows))) return false;
    }
    return true;
  };
  const differs = new Set<number>();
  for (const rows of probeSplits) if (!(await isSame(rows))) differs.add(rows);
  return multiples.find((multiple) => ![...differs].some((rows) => rows % multiple === 0));
}

function emptyTensor({ dtype, shape }: ValueInfo, rows: number): Tensor {
  const sizes = shapeFor(shape, rows);
  const data = dtype === "int32" ? new Int32Array(elementCount(sizes)) : new Float32Array(elementCount(sizes));
  return { dtype, shape: sizes, data };
}

/** Numbers without a pattern; ids and positions that every model has. */
function probeTensor(info: ValueInfo): Tensor {
  const tensor = emptyTensor(info, probeRows);
  let state = 12345;
  for (let i = 0; i < tensor.data.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    tensor.data[i] = info.dtype === "int32" ? 0 : (state / 2 ** 32 - 0.5) * 2;
  }
  return tensor;
}

function rowsFrom(info: ValueInfo, tensors: Tensors, from: number, rows: number): Tensor {
  const { dtype, data } = tensors[info.name] as Tensor;
  const width = elementCount(shapeFor(info.shape, 1));
  const part = (data as Float32Array).slice(from * width, (from + rows) * width);
  return { dtype, shape: shapeFor(info.shape, rows), data: part };
}

function sameBytes(a: Tensor, b: Tensor): boolean {
  const [x, y] = [bytesOf(a), bytesOf(b)];
  return x.length === y.length && x.every((byte, i) => byte === y[i]);
}
