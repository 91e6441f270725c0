// Graphs for any number of rows on ONNX Runtime: one session with open sizes, weights inside it. The runtime then packs the
// weights once, which makes single rows fast and, for most of its kernels, a row's bits independent of the others. That is
// not documented, so every graph is tried when it is loaded, and the smallest number of rows is used for which it holds.

import type { InferenceSession, Tensor as OrtTensor } from "onnxruntime-common";
import { ownPages, sameBytes } from "../../core/bytes.ts";
import { Recent } from "../../core/caches/recent.ts";
import { fail } from "../../core/errors.ts";
import { bytesOf, type Tensor, tensorBytes, viewData } from "../../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../../graph/model.ts";
import { encodeOnnxParts } from "../../graph/onnx.ts";
import { joined } from "../../graph/protobuf-write.ts";
import { openRows, shapeFor } from "../../graph/rows.ts";
import type { Tensors } from "../engine.ts";
import { inputsBeside, type RowProgram } from "../stage/row-program.ts";
import { writeModelFiles } from "./model-files.ts";
import type { OnnxRuntime, OutputHandling, RowSession } from "./onnx-runtime.ts";
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
  /** Where weights may lie in files while they are loaded; absent: nowhere. */
  readonly folder: string | undefined;
}

/** What the runtime is given of a graph. */
export function runtimeGraph(graph: GraphModel, weights: Tensors): GraphModel {
  const constants = { ...graph.constants, ...weights };
  return openRows(shortNames({ ...graph, inputs: inputsBeside(graph, weights), constants }));
}

export async function onnxRowProgram(given: RowsRuntime, graph: GraphModel, weights: Tensors): Promise<RowProgram> {
  const renamed = runtimeGraph(graph, weights);
  const session = await sessionOf(given, renamed);
  return sessionProgram(given, session, { ...renamed, constants: {} }, structureOf(graph));
}

/** The runtime looks inputs and outputs up by name at each run: short ones, the same in all graphs, are found faster. */
function shortNames(graph: GraphModel): GraphModel {
  const names = new Map([
    ...graph.inputs.map(({ name }, i) => [name, `i${i}`] as const),
    ...graph.outputs.map(({ name }, i) => [name, `o${i}`] as const),
  ]);
  const short = (name: string) => names.get(name) ?? name;
  const named = (info: ValueInfo) => ({ ...info, name: short(info.name) });
  return {
    ...graph,
    inputs: graph.inputs.map(named),
    outputs: graph.outputs.map(named),
    nodes: graph.nodes.map((node) => ({ ...node, inputs: node.inputs.map(short), outputs: node.outputs.map(short) })),
  };
}

async function sessionOf(given: RowsRuntime, graph: GraphModel): Promise<RowSession> {
  const front = given.outputs === "unread" ? [unreadFront()] : [];
  const files = given.folder === undefined ? undefined : writeModelFiles(given.folder, graph, front);
  if (files !== undefined)
    try {
      return await openSession(given, files.path);
    } finally {
      files.remove();
    }
  const bytes = joined([...front, ...encodeOnnxParts(graph)], passingBytes);
  try {
    return await openSession(given, bytes);
  } finally {
    letGo(bytes);
  }
}

async function openSession({ runtime, options }: RowsRuntime, model: Uint8Array | string): Promise<RowSession> {
  return runtime.direct?.(model, options) ?? (await runtime.InferenceSession.create(model, options));
}

type Named = Record<string, OrtTensor>;

/** Apart from what loads the session: a function that is kept keeps everything that stands where it was written, weights among it. */
async function sessionProgram(
  { runtime, outputs }: RowsRuntime,
  session: RowSession,
  graph: GraphModel,
  key: string,
): Promise<RowProgram> {
  const widthOf = ({ dtype, shape }: ValueInfo) => tensorBytes(dtype, shapeFor(shape, 1));
  const rowBytes = graph.outputs.reduce((sum, info) => sum + widthOf(info), 0);
  /** Passes of as many rows find their values at the same places: what the runtime is given is made once. */
  let last: { tensors: readonly Tensor[]; given: Named; fetches: Record<string, OrtTensor | null> } | undefined;
  const bound = (feeds: readonly Tensor[], into: readonly Tensor[], isUnread: boolean) => {
    const tensors = [...feeds, ...into];
    if (last?.tensors.length === tensors.length && tensors.every((tensor, i) => tensor === last?.tensors[i]))
      return last;
    const fetches = outputs === "copied" ? {} : tensorsOf(runtime, graph.outputs, into);
    const given = tensorsOf(runtime, graph.inputs, feeds);
    last = { tensors, given, fetches: isUnread ? { [unreadOutput]: null, ...fetches } : fetches };
    return last;
  };
  const finish = (results: InferenceSession.OnnxValueMapType, into: readonly Tensor[]) => {
    if (outputs !== "copied") return;
    for (const [i, { name }] of graph.outputs.entries())
      ((into[i] as Tensor).data as Float32Array).set((results[name] as OrtTensor).data as Float32Array);
  };
  const run = (feeds: readonly Tensor[], into: readonly Tensor[], rows: number): Promise<void> | undefined => {
    const isUnread = outputs === "unread" && rows * rowBytes >= unreadBytesMin;
    const { given, fetches } = bound(feeds, into, isUnread);
    const failed = (thrown: unknown) => {
      if (!isUnread || !isOnlyUnread(thrown)) throw thrown;
    };
    try {
      const results = session.run(given, fetches);
      if (results instanceof Promise) return results.then((each) => finish(each, into)).catch(failed);
      finish(results, into);
    } catch (thrown) {
      failed(thrown);
    }
    return undefined;
  };
  const multiple = tried.get(key) ?? (await smallestMultiple(graph, run));
  if (multiple !== undefined) tried.set(key, multiple);
  if (multiple === undefined) {
    await session.release();
    fail(
      "failed_precondition",
      `graph "${graph.name}": rows change each other's last bits on this machine, which cannot serve it. Use portable numerics`,
    );
  }
  const padded = (rows: number) => Math.ceil(rows / multiple) * multiple;
  return { padded, keepsWeights: false, run, release: async () => session.release() };
}

/** It goes back to the machine at once. From the C library's heap it would lie between what the runtime keeps. */
function passingBytes(bytes: number): Uint8Array {
  return new Uint8Array(ownPages(bytes));
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

function tensorsOf(runtime: OnnxRuntime, infos: readonly ValueInfo[], tensors: readonly Tensor[]): Named {
  return Object.fromEntries(infos.map(({ name }, i) => [name, tensorOf(runtime, tensors[i] as Tensor)]));
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

type Run = (feeds: readonly Tensor[], into: readonly Tensor[], rows: number) => Promise<void> | undefined;

/** What is tried lies on pages of its own that go back at once: between what the runtime keeps, it would leave holes as large as a small model. */
async function smallestMultiple({ inputs, outputs }: GraphModel, run: Run): Promise<number | undefined> {
  const pages: ArrayBuffer[] = [];
  const probeRoom = (info: ValueInfo) => {
    const room = ownPages(tensorBytes(info.dtype, shapeFor(info.shape, probeRows)));
    pages.push(room);
    return room;
  };
  const feeds = inputs.map((info) => probeContent(info, probeRoom(info)));
  const [whole, found] = [outputs.map(probeRoom), outputs.map(probeRoom)];
  const part = async (from: number, rows: number, into: readonly ArrayBuffer[]): Promise<readonly Tensor[]> => {
    const results = outputs.map((info, i) => rowsIn(info, into[i] as ArrayBuffer, 0, rows));
    await run(
      inputs.map((info, i) => rowsIn(info, feeds[i] as ArrayBuffer, from, rows)),
      results,
      rows,
    );
    return results;
  };
  const isSame = async (rows: number): Promise<boolean> => {
    for (let from = 0; from + rows <= probeRows; from += rows)
      for (const [i, tensor] of (await part(from, rows, found)).entries())
        if (!sameTensor(tensor, rowsIn(outputs[i] as ValueInfo, whole[i] as ArrayBuffer, from, rows))) return false;
    return true;
  };
  try {
    await part(0, probeRows, whole);
    const differs = new Set<number>();
    for (const rows of probeSplits) if (!(await isSame(rows))) differs.add(rows);
    return multiples.find((multiple) => ![...differs].some((rows) => rows % multiple === 0));
  } finally {
    for (const room of pages) room.resize(0);
  }
}

/** Numbers without a pattern; ids and positions that every model has. */
function probeContent(info: ValueInfo, room: ArrayBuffer): ArrayBuffer {
  const { data } = rowsIn(info, room, 0, probeRows);
  let state = 12345;
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    data[i] = info.dtype === "int32" ? 0 : (state / 2 ** 32 - 0.5) * 2;
  }
  return room;
}

function rowsIn({ dtype, shape }: ValueInfo, room: ArrayBuffer, from: number, rows: number): Tensor {
  const rowBytes = tensorBytes(dtype, shapeFor(shape, 1));
  return {
    dtype,
    shape: shapeFor(shape, rows),
    data: viewData(dtype, new Uint8Array(room, from * rowBytes, rows * rowBytes)),
  };
}

function sameTensor(a: Tensor, b: Tensor): boolean {
  return sameBytes(bytesOf(a), bytesOf(b));
}
