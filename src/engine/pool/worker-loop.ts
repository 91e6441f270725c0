// What a worker of an executor does, wherever it runs: an engine, its programs, and the kernels. It answers one message after
// the other; a failure is an answer like any other and leaves the worker usable.

import { assert } from "../../core/assert.ts";
import { DcnrError } from "../../core/errors.ts";
import { elementBytes, elementCount, type Tensor, viewData } from "../../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../../graph/model.ts";
import type { Engine, Tensors } from "../engine.ts";
import { Stages } from "../stage/stage.ts";
import type { StageCall } from "../stage/stage-call.ts";
import type { OpenTable } from "../stage/tables.ts";
import type { FromWorker, ToWorker, WireData, WireView, WorkerSettings } from "./messages.ts";
import { wholeMemoryId } from "./one-memory-pool.ts";
import { type Station, stationFor } from "./station.ts";

export interface WorkerLoopOptions {
  readonly settings: WorkerSettings;
  readonly opening: Promise<Engine>;
  /** Buffers that go along are moved, not copied. */
  readonly answer: (message: FromWorker, moved: ArrayBuffer[]) => void;
  readonly collectGarbage: () => void;
  /** Absent where there are no files. */
  readonly openTable?: OpenTable;
}

export class WorkerLoop {
  readonly #options: WorkerLoopOptions;
  readonly #models = new Map<number, GraphModel>();
  readonly #blocks = new Map<number, SharedArrayBuffer>();
  readonly #memories = new Map<ArrayBufferLike, WebAssembly.Memory>();
  readonly #opened: Promise<Station>;
  readonly #stages: Promise<Stages>;
  #last: Promise<void> = Promise.resolve();

  /** Says that it is ready, or why it never will be, when the engine has opened. */
  constructor(options: WorkerLoopOptions) {
    const { settings, opening, answer } = options;
    this.#options = options;
    this.#opened = opening.then((engine) => stationFor(engine, (buffer) => this.#memories.get(buffer)));
    this.#stages = options.opening.then((engine) => new Stages(engine, options.openTable));
    // Whoever waits for the station is told.
    this.#stages.catch(() => {});
    // A copy of it in a message would be another object, which the engine would not take for its own.
    if (settings.memory !== undefined) this.#learnBlock(wholeMemoryId, settings.memory);
    this.#opened.then(
      () => answer({ kind: "ready" }, []),
      (thrown: unknown) => answer(failureOf(thrown), []),
    );
  }

  receive(message: ToWorker): void {
    const { answer } = this.#options;
    this.#last = this.#last.then(async () => {
      try {
        const reply = await this.#handle(message);
        if (reply !== undefined) answer(reply, buffersOf(reply));
      } catch (thrown) {
        answer(failureOf(thrown), []);
      }
    });
  }

  async #handle(message: ToWorker): Promise<FromWorker | undefined> {
    const station = await this.#opened;
    switch (message.kind) {
      case "graph":
        this.#models.set(message.id, message.model);
        return undefined;
      case "block":
        this.#learnBlock(message.id, message.memory);
        return undefined;
      case "forget":
        for (const id of message.blocks) this.#forgetBlock(station, id);
        for (const id of message.graphs) {
          this.#models.delete(id);
          await station.forget(id);
        }
        return undefined;
      case "collect":
        this.#options.collectGarbage();
        return undefined;
      case "run":
        await this.#run(station, message);
        return { kind: "done", results: [] };
      case "kernels": {
        const views = message.operands.map((operands) => operands.map((wire) => this.#viewOf(wire)));
        return { kind: "done", results: await station.kernels(message.calls, views) };
      }
      case "download":
        await station.download(message.views.map((wire) => this.#viewOf(wire)));
        return { kind: "done", results: [] };
      case "wrote":
        await station.wrote(message.views.map((wire) => this.#viewOf(wire)));
        return undefined;
      case "lasts":
        station.lasts(this.#blockOf(message.block));
        return undefined;
      case "discard":
        station.forgetBuffer(this.#blockOf(message.block));
        return undefined;
      case "stage": {
        const stage = await (await this.#stages).answer(this.#withWeights(message));
        return { kind: "done", results: [], stage };
      }
      case "class":
        return { kind: "done", results: [], numerics: await station.numericsClass() };
      case "close":
        await (await this.#stages).close();
        await station.close();
        return { kind: "done", results: [] };
    }
  }

  async #run(station: Station, message: ToWorker & { kind: "run" }): Promise<void> {
    const model = this.#models.get(message.graph);
    assert(model !== undefined, `graph ${message.graph} is known to the worker`);
    const feeds = this.#tensorsOf(model.inputs, message.feeds);
    const into = this.#tensorsOf(model.outputs, message.into);
    await station.run({ id: message.graph, model }, feeds, into, message.finite, message.keep);
  }

  #withWeights({ call, weights }: ToWorker & { kind: "stage" }): StageCall {
    if (call.kind !== "load") return call;
    const infos = Object.entries(call.weights).map(([name, { dtype, shape }]) => ({ name, dtype, shape }));
    return { ...call, weights: this.#tensorsOf(infos, weights) };
  }

  #tensorsOf(infos: readonly ValueInfo[], wires: readonly WireData[]): Tensors {
    const tensors: Record<string, Tensor> = {};
    for (const [i, { name, dtype, shape }] of infos.entries()) {
      const wire = wires[i] as WireData;
      const bytes = elementCount(shape) * elementBytes(dtype);
      const data = "data" in wire ? wire.data : viewData(dtype, this.#bytesIn(wire, bytes));
      tensors[name] = { dtype, shape, data };
    }
    return tensors;
  }

  #viewOf(wire: WireView): Float32Array {
    const data = "data" in wire ? wire.data : viewData("float32", this.#bytesIn(wire, wire.length * 4));
    return data as Float32Array;
  }

  #bytesIn(wire: { readonly block: number; readonly offset: number }, length: number): Uint8Array {
    return new Uint8Array(this.#blockOf(wire.block), wire.offset, length);
  }

  #blockOf(id: number): SharedArrayBuffer {
    const block = this.#blocks.get(id);
    assert(block !== undefined, `block ${id} is known to the worker`);
    return block;
  }

  #learnBlock(id: number, memory: WebAssembly.Memory | SharedArrayBuffer): void {
    if (this.#blocks.has(id)) return;
    const buffer = memory instanceof WebAssembly.Memory ? (memory.buffer as unknown as SharedArrayBuffer) : memory;
    this.#blocks.set(id, buffer);
    if (memory instanceof WebAssembly.Memory) this.#memories.set(buffer, memory);
  }

  #forgetBlock(station: Station, id: number): void {
    const buffer = this.#blocks.get(id);
    this.#blocks.delete(id);
    if (buffer) station.forgetBuffer(buffer);
    const memory = buffer && this.#memories.get(buffer);
    if (memory === undefined) return;
    this.#memories.delete(memory.buffer);
    station.forgetMemory(memory);
  }
}

/** Of what a stage has copied for the caller. */
function buffersOf(reply: FromWorker): ArrayBuffer[] {
  const tensors = reply.kind === "done" ? (reply.stage?.tensors ?? []) : [];
  return tensors.map(({ data }) => data.buffer as ArrayBuffer);
}

function failureOf(thrown: unknown): FromWorker {
  const { code, message } = DcnrError.from(thrown);
  return { kind: "failed", code, message };
}
