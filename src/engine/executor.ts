// The part of an executor that does not depend on where the work runs: names, checks, memory. A backend does the work, in
// this thread (inline) or on workers (threads.ts).

import { fail } from "../core/errors.ts";
import type { Tensor, TensorData } from "../core/tensor.ts";
import type { GraphModel } from "../graph/model.ts";
import { checkTensors } from "./check-tensors.ts";
import type { Engine, EngineKind, Executor, KernelCall, KernelResult, Program, RunOptions, Tensors } from "./engine.ts";
import { Holders } from "./holders.ts";
import { KernelRunner, type KernelView, type LoweredCall, lowerCall, viewOf, viewsOf } from "./kernels.ts";
import { type MemoryBlock, type MemoryPool, SharedMemoryPool } from "./memory.ts";
import { OneMemoryPool } from "./one-memory-pool.ts";
import type { LinearMemory } from "./portable/linear-memory.ts";

/** A registered graph; its id, not its name, tells two generations of one name apart. */
export interface RegisteredGraph {
  readonly id: number;
  readonly model: GraphModel;
}

export interface RunJob {
  readonly kind: "run";
  readonly graph: RegisteredGraph;
  readonly feeds: Tensors;
  readonly transfer: boolean;
  /** All outputs. */
  readonly into: Tensors;
  readonly finite: readonly string[];
}

export interface KernelJob {
  readonly kind: "kernels";
  readonly calls: readonly LoweredCall[];
}

export type Job = RunJob | KernelJob;

export interface Backend {
  readonly kind: EngineKind;
  readonly workers: number;
  /** Whether what is written must lie in shared memory. */
  readonly isElsewhere: boolean;
  /** The results of kernels; a run has none. */
  submit(job: Job, priority: number): Promise<readonly KernelResult[]>;
  /** Graphs and blocks that will not be used again. */
  forgetGraph(graph: RegisteredGraph): void;
  forgetMemory(block: MemoryBlock): void;
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

/** Feeds smaller than this travel inside the message. */
const messageBytesMax = 4096;

/** `memory`: the one that the engine works in, if it does. */
export function executorOver(open: (pool: MemoryPool) => Backend, memory?: LinearMemory): Executor {
  const graphs = new Map<string, RegisteredGraph>();
  const forget = (block: MemoryBlock) => backend.forgetMemory(block);
  const pool = memory === undefined ? new SharedMemoryPool(forget) : new OneMemoryPool(memory, forget);
  const backend = open(pool);
  const holders = new Holders();
  let nextGraph = 1;
  let closed = false;

  function checkShared({ buffer }: TensorData, what: string): void {
    if (backend.isElsewhere && !(buffer instanceof SharedArrayBuffer))
      fail("invalid_argument", `${what} must lie in shared memory: take it from allocate or tensor`);
  }

  async function run(name: string, feeds: Tensors, options: RunOptions = {}): Promise<Tensors> {
    const graph = graphs.get(name);
    if (closed) fail("unavailable", "the executor is closed");
    if (graph === undefined) fail("not_found", `graph "${name}" is not registered with the executor`);
    const { into = {}, transfer = false, priority = 0, finite = false } = options;
    checkTensors(graph.model, feeds, into);
    for (const [output, { data }] of Object.entries(into)) checkShared(data, `output "${output}" of graph "${name}"`);
    const outputs: Record<string, Tensor> = {};
    for (const { name: output, dtype, shape } of graph.model.outputs)
      outputs[output] = into[output] ?? pool.tensor(dtype, shape);
    const checked = finite === true ? Object.keys(outputs) : finite === false ? [] : finite;
    const moved = backend.isElsewhere && !transfer ? sharedCopies(feeds) : {};
    const given = { ...feeds, ...moved };
    try {
      await backend.submit({ kind: "run", graph, feeds: given, transfer, into: outputs, finite: checked }, priority);
    } catch (thrown) {
      pool.recycle(Object.values(outputs).filter((tensor) => !Object.values(into).includes(tensor)));
      throw thrown;
    } finally {
      pool.recycle(Object.values(moved));
    }
    return outputs;
  }

  async function kernels(calls: readonly KernelCall[], options: { readonly priority?: number } = {}) {
    if (closed) fail("unavailable", "the executor is closed");
    const lowered = calls.map(lowerCall);
    for (const { kind, operands } of lowered)
      for (const { operand, writes } of operands)
        if (writes) checkShared(viewOf(operand), `what the kernel ${kind} writes`);
    return backend.submit({ kind: "kernels", calls: lowered }, options.priority ?? 0);
  }

  /** Copies for a worker come from the pool: cloned messages would leave it with garbage of the same size. */
  function sharedCopies(feeds: Tensors): Record<string, Tensor> {
    const copies: Record<string, Tensor> = {};
    for (const [name, tensor] of Object.entries(feeds)) {
      const { data, dtype, shape } = tensor;
      if (data.buffer instanceof SharedArrayBuffer || data.byteLength < messageBytesMax) continue;
      const copy = pool.tensor(dtype, shape);
      (copy.data as Float32Array).set(data as Float32Array);
      copies[name] = copy;
    }
    return copies;
  }

  return {
    kind: backend.kind,
    workers: backend.workers,
    register(name, model) {
      if (graphs.has(name)) fail("already_exists", `graph "${name}" is registered already: unregister it first`);
      graphs.set(name, { id: nextGraph++, model });
    },
    unregister(name) {
      const graph = graphs.get(name);
      if (graph === undefined) return;
      graphs.delete(name);
      backend.forgetGraph(graph);
      pool.trim();
    },
    run,
    kernel: async (call, options) => (await kernels([call], options))[0] as KernelResult,
    kernels,
    allocate: (bytes) => pool.allocate(bytes),
    free: (memory) => pool.free(memory),
    tensor: (dtype, shape) => pool.tensor(dtype, shape),
    share: (tensor) => holders.add(tensor.data),
    recycle: (tensors) => pool.recycle(holders.last(tensors)),
    numericsClass: () => backend.numericsClass(),
    async close() {
      if (closed) return;
      closed = true;
      await backend.close();
      pool.trim();
    },
  };
}

/** Runs in this thread, one call after the other in the order they were made: for simulation, tests and small tools. */
export function openInlineExecutor(engine: Engine): Executor {
  return executorOver((pool) => inlineBackend(engine, pool), engine.memory);
}

function inlineBackend(engine: Engine, pool: MemoryPool): Backend {
  const memoryOf = (buffer: ArrayBufferLike) => pool.blockOf(buffer)?.memory;
  const station = new Station(engine, memoryOf);
  let last: Promise<unknown> = Promise.resolve();
  const inOrder = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work);
    last = result.catch(() => {});
    return result;
  };
  return {
    kind: engine.kind,
    workers: 1,
    isElsewhere: false,
    submit: (job) =>
      inOrder(async () => {
        if (job.kind === "kernels") return station.kernels(job.calls, job.calls.map(viewsOf));
        await station.run(job.graph, job.feeds, job.into, job.finite);
        return [];
      }),
    forgetGraph: (graph) => void inOrder(() => station.forget(graph.id)),
    forgetMemory: ({ memory }) => void inOrder(async () => memory && station.forgetMemory(memory)),
    numericsClass: () => inOrder(() => engine.numericsClass()),
    close: () => inOrder(() => station.close()),
  };
}

/** One thread's engine, loaded programs and kernels. */
export class Station {
  readonly #engine: Engine;
  readonly #programs = new Map<number, Program>();
  readonly #kernels = new KernelRunner();
  readonly #memoryOf: (buffer: ArrayBufferLike) => WebAssembly.Memory | undefined;

  /** `memoryOf` finds the wasm memory behind a buffer, where there is one. */
  constructor(engine: Engine, memoryOf: (buffer: ArrayBufferLike) => WebAssembly.Memory | undefined) {
    this.#engine = engine;
    this.#memoryOf = memoryOf;
  }

  async run(graph: RegisteredGraph, feeds: Tensors, into: Tensors, finite: readonly string[]): Promise<void> {
    let program = this.#programs.get(graph.id);
    if (program === undefined) {
      program = await this.#engine.load(graph.model);
      this.#programs.set(graph.id, program);
    }
    await program.run(feeds, into);
    for (const name of finite) this.#checkFinite(graph.model, name, into[name]);
  }

  #checkFinite(model: GraphModel, name: string, tensor: Tensor | undefined): void {
    if (tensor === undefined) fail("invalid_argument", `graph "${model.name}" has no output "${name}" to check`);
    if (!(tensor.data instanceof Float32Array)) return;
    const call = lowerCall({ kind: "finite", of: tensor });
    if (this.#kernels.run(call, [this.#located(tensor.data)]).value === 1) return;
    const at = tensor.data.findIndex((value) => !Number.isFinite(value));
    const value = tensor.data[at];
    fail("out_of_range", `output "${name}" of graph "${model.name}" has ${value} at element ${at}`);
  }

  kernels(calls: readonly LoweredCall[], views: readonly (readonly Float32Array[])[]): readonly KernelResult[] {
    return this.#kernels.runAll(
      calls,
      views.map((each) => each.map((view) => this.#located(view))),
    );
  }

  #located(view: Float32Array): KernelView {
    const memory = this.#memoryOf(view.buffer);
    return memory === undefined ? { view } : { view, memory };
  }

  forgetMemory(memory: WebAssembly.Memory): void {
    this.#kernels.forget(memory);
  }

  async forget(graphId: number): Promise<void> {
    const program = this.#programs.get(graphId);
    this.#programs.delete(graphId);
    await program?.release();
  }

  numericsClass(): Promise<string> {
    return this.#engine.numericsClass();
  }

  async close(): Promise<void> {
    for (const id of [...this.#programs.keys()]) await this.forget(id);
    await this.#engine.close();
  }
}
