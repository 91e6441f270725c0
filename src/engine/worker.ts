// One worker thread: an engine, its programs, and the kernels. It answers one message after the other; a failure is an
// answer like any other and leaves the worker usable.

import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../core/assert.ts";
import { DcnrError } from "../core/errors.ts";
import { elementBytes, elementCount, type Tensor, viewData } from "../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../graph/model.ts";
import { collectGarbage } from "./collect.ts";
import type { Tensors } from "./engine.ts";
import { Station } from "./executor.ts";
import type { FromWorker, ToWorker, WireData, WorkerSettings } from "./messages.ts";
import { wholeMemoryId } from "./one-memory-pool.ts";
import { openEngine } from "./open.ts";

const port = parentPort;
assert(port !== null, "the worker file runs as a worker thread");
const answer = (message: FromWorker) => port.postMessage(message);

const models = new Map<number, GraphModel>();
const blocks = new Map<number, SharedArrayBuffer>();
const memories = new Map<ArrayBufferLike, WebAssembly.Memory>();
const settings = workerData as WorkerSettings;
const opened = openEngine(settings.kind, settings.memory).then(
  (engine) => new Station(engine, (buffer) => memories.get(buffer)),
);

// A copy of it in a message would be another object, which the engine would not take for its own.
if (settings.memory !== undefined) learnBlock(wholeMemoryId, settings.memory);

function tensorsOf(infos: readonly ValueInfo[], wires: readonly WireData[]): Tensors {
  const tensors: Record<string, Tensor> = {};
  for (const [i, { name, dtype, shape }] of infos.entries()) {
    const wire = wires[i] as WireData;
    const data = "data" in wire ? wire.data : viewData(dtype, bytesIn(wire, elementCount(shape) * elementBytes(dtype)));
    tensors[name] = { dtype, shape, data };
  }
  return tensors;
}

function bytesIn(wire: { readonly block: number; readonly offset: number }, length: number): Uint8Array {
  const block = blocks.get(wire.block);
  assert(block !== undefined, `block ${wire.block} is known to the worker`);
  return new Uint8Array(block, wire.offset, length);
}

async function run(station: Station, message: ToWorker & { kind: "run" }): Promise<void> {
  const model = models.get(message.graph);
  assert(model !== undefined, `graph ${message.graph} is known to the worker`);
  const feeds = tensorsOf(model.inputs, message.feeds);
  const into = tensorsOf(model.outputs, message.into);
  await station.run({ id: message.graph, model }, feeds, into, message.finite);
}

type Operand = (ToWorker & { kind: "kernels" })["operands"][number][number];

function viewsOf(operands: readonly Operand[]): Float32Array[] {
  return operands.map((wire) => {
    const data = "data" in wire ? wire.data : viewData("float32", bytesIn(wire, wire.length * 4));
    return data as Float32Array;
  });
}

function learnBlock(id: number, memory: WebAssembly.Memory | SharedArrayBuffer): void {
  if (blocks.has(id)) return;
  const buffer = memory instanceof WebAssembly.Memory ? (memory.buffer as unknown as SharedArrayBuffer) : memory;
  blocks.set(id, buffer);
  if (memory instanceof WebAssembly.Memory) memories.set(buffer, memory);
}

function forgetBlock(station: Station, id: number): void {
  const buffer = blocks.get(id);
  blocks.delete(id);
  const memory = buffer && memories.get(buffer);
  if (memory === undefined) return;
  memories.delete(memory.buffer);
  station.forgetMemory(memory);
}

async function handle(message: ToWorker): Promise<FromWorker | undefined> {
  const station = await opened;
  switch (message.kind) {
    case "graph":
      models.set(message.id, message.model);
      return undefined;
    case "block":
      learnBlock(message.id, message.memory);
      return undefined;
    case "forget":
      for (const id of message.blocks) forgetBlock(station, id);
      for (const id of message.graphs) {
        models.delete(id);
        await station.forget(id);
      }
      return undefined;
    case "collect":
      collectGarbage();
      return undefined;
    case "run":
      await run(station, message);
      return { kind: "done", results: [] };
    case "kernels":
      return { kind: "done", results: station.kernels(message.calls, message.operands.map(viewsOf)) };
    case "class":
      return { kind: "done", results: [], numerics: await station.numericsClass() };
    case "close":
      await station.close();
      return { kind: "done", results: [] };
  }
}

let last: Promise<void> = Promise.resolve();
port.on("message", (message: ToWorker) => {
  last = last.then(async () => {
    try {
      const reply = await handle(message);
      if (reply !== undefined) answer(reply);
    } catch (thrown) {
      const { code, message: text } = DcnrError.from(thrown);
      answer({ kind: "failed", code, message: text });
    }
  });
});

opened.then(
  () => answer({ kind: "ready" }),
  (thrown: unknown) =>
    answer({ kind: "failed", code: DcnrError.from(thrown).code, message: DcnrError.from(thrown).message }),
);
