// The part of an executor that does not depend on where the work runs: names, checks, memory. A backend does the work, in
// this thread (inline) or on workers (threads.ts).

import { fail } from "../core/errors.ts";
import type { Tensor, TensorData } from "../core/tensor.ts";
import { checkTensors } from "./check-tensors.ts";
import type {
  Engine,
  EngineKind,
  Executor,
  KernelCall,
  KernelResult,
  RunOptions,
  SharedBytes,
  StageExecutor,
  Tensors,
} from "./engine.ts";
import { type LoweredCall, lowerCall, viewOf, viewsOf } from "./kernels/kernels.ts";
import { Holders } from "./pool/holders.ts";
import { type MemoryBlock, type MemoryPool, SharedMemoryPool } from "./pool/memory.ts";
import { OneMemoryPool } from "./pool/one-memory-pool.ts";
import { type RegisteredGraph, stationFor } from "./pool/station.ts";
import type { LinearMemory } from "./portable/linear-memory.ts";
import { Stages } from "./stage/stage.ts";
import type { StageAnswer, StageCall } from "./stage/stage-call.ts";

export interface RunJob {
  readonly kind: "run";
  readonly graph: RegisteredGraph;
  readonly feeds: Tensors;
  readonly transfer: boolean;
  /** All outputs. */
  readonly into: Tensors;
  readonly finite: readonly string[];
  /** Outputs that a device may keep to itself. */
  readonly keep: readonly string[];
}

export interface KernelJob {
  readonly kind: "kernels";
  readonly calls: readonly LoweredCall[];
}

/** What a device computed is wanted in shared memory. */
export interface DownloadJob {
  readonly kind: "download";
  readonly views: readonly Float32Array[];
}

export type Job = RunJob | KernelJob | DownloadJob;

export interface Backend {
  readonly kind: EngineKind;
  readonly workers: number;
  /** Whether what is written must lie in shared memory. */
  readonly isElsewhere: boolean;
  /** Told what a device must know of shared memory; absent where there is no other memory. */
  readonly device?: DeviceListener;
  /** Why it can do nothing any more, if so. */
  readonly lost?: string | undefined;
  /** The results of kernels; a run has none. */
  submit(job: Job, priority: number): Promise<readonly KernelResult[]>;
  /** Stages go to workers by their number. */
  stage(number: number, call: StageCall): Promise<StageAnswer>;
  /** Graphs and blocks that will not be used again. */
  forgetGraph(graph: RegisteredGraph): void;
  forgetMemory(block: MemoryBlock): void;
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

export interface DeviceListener {
  /** Allocated: what was once on the device stays there. */
  lasts(buffer: SharedArrayBuffer): void;
  wrote(views: readonly Float32Array[]): void;
  /** Nobody will read what is there. */
  discard(buffer: SharedArrayBuffer): void;
}

/** Feeds smaller than this travel inside the message. */
const messageBytesMax = 4096;
/** Of a stage: logits, and states beside them. */
const spareResultsMax = 2;

/** Somebody waits for what is computed already. */
const downloadPriority = 4;

/** `memory`: the one that the engine works in, if it does. */
export function executorOver(open: (pool: MemoryPool) => Backend, memory?: LinearMemory): Executor {
  const graphs = new Map<string, RegisteredGraph>();
  const forget = (block: MemoryBlock) => backend.forgetMemory(block);
  const pool = memory === undefined ? new SharedMemoryPool(forget) : new OneMemoryPool(memory, forget);
  const backend = open(pool);
  const holders = new Holders();
  /** Tensors of the pool of which a device keeps what it computed. */
  const kept = new Set<ArrayBufferLike>();
  let nextGraph = 1;
  let stages = 0;
  let closed = false;

  function checkShared({ buffer }: TensorData, what: string): void {
    if (backend.isElsewhere && !(buffer instanceof SharedArrayBuffer))
      fail("invalid_argument", `${what} must lie in shared memory: take it from allocate or tensor`);
  }

  async function run(name: string, feeds: Tensors, options: RunOptions = {}): Promise<Tensors> {
    const graph = graphs.get(name);
    if (closed) fail("unavailable", "the executor is closed");
    if (graph === undefined) fail("not_found", `graph "${name}" is not registered with the executor`);
    const { into = {}, transfer = false, priority = 0, finite = false, keep = [] } = options;
    checkTensors(graph.model, feeds, into);
    for (const [output, { data }] of Object.entries(into)) checkShared(data, `output "${output}" of graph "${name}"`);
    const outputs: Record<string, Tensor> = {};
    for (const { name: output, dtype, shape } of graph.model.outputs)
      outputs[output] = into[output] ?? pool.tensor(dtype, shape);
    const checked = finite === true ? Object.keys(outputs) : finite === false ? [] : finite;
    const moved = backend.isElsewhere && !transfer ? sharedCopies(feeds) : {};
    const given = { ...feeds, ...moved };
    try {
      const job = { kind: "run", graph, feeds: given, transfer, into: outputs, finite: checked, keep } as const;
      await backend.submit(job, priority);
      if (backend.device) for (const name of keep) if (outputs[name]) kept.add(outputs[name].data.buffer);
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

  /** The caller gives them back: the device may let go of them too. */
  function recycle(tensors: Iterable<Pick<Tensor, "data">>): void {
    const last = holders.last(tensors);
    for (const { data } of last)
      if (kept.delete(data.buffer)) backend.device?.discard(data.buffer as SharedArrayBuffer);
    pool.recycle(last);
  }

  function allocate(bytes: number): SharedBytes {
    const memory = pool.allocate(bytes);
    backend.device?.lasts(memory.buffer);
    return memory;
  }

  function openStage(): StageExecutor {
    const number = stages++;
    const spare: ArrayBuffer[] = [];
    const call = (given: StageCall) =>
      closed ? fail("unavailable", "the executor is closed") : backend.stage(number, given);
    // What a dead worker had is gone already.
    const tell = async (given: StageCall): Promise<void> => {
      if (!closed) await backend.stage(number, given).catch(() => {});
    };
    return {
      load: async (plan, name, weights, bits) => {
        for (const [weight, { data }] of Object.entries(weights)) checkShared(data, `weight "${weight}"`);
        const { loaded } = await call({ kind: "load", plan, name, weights, ...(bits && { bits }) });
        return loaded ?? { keepsWeights: true, weightError: 0 };
      },
      unload: (name) => tell({ kind: "unload", name }),
      drop: (name, requests) => void tell({ kind: "drop", name, requests }),
      run: async (pass, feeds) => (await call({ kind: "run", pass, feeds, spare: spare.splice(0) })).tensors ?? [],
      recycle: (results) => {
        for (const { data } of results)
          if (spare.length < spareResultsMax) spare.push((data as Float32Array<ArrayBuffer>).buffer);
      },
    };
  }

  return {
    kind: backend.kind,
    workers: backend.workers,
    get lost() {
      return backend.lost;
    },
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
    allocate,
    free: (memory) => pool.free(memory),
    tensor: (dtype, shape) => pool.tensor(dtype, shape),
    share: (tensor) => holders.add(tensor.data),
    recycle,
    download(operands) {
      if (backend.device === undefined) return undefined;
      return backend.submit({ kind: "download", views: operands.map(viewOf) }, downloadPriority).then(() => {});
    },
    upload: (operands) => backend.device?.wrote(operands.map(viewOf)),
    openStage,
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
  const station = stationFor(engine, memoryOf);
  const stages = new Stages(engine);
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
    ...(engine.openStation && {
      device: {
        lasts: (buffer) => station.lasts(buffer),
        wrote: (views) => void inOrder(async () => station.wrote(views)),
        discard: (buffer) => void inOrder(async () => station.forgetBuffer(buffer)),
      },
    }),
    submit: (job) =>
      inOrder(async () => {
        if (job.kind === "kernels") return station.kernels(job.calls, job.calls.map(viewsOf));
        if (job.kind === "download") await station.download(job.views);
        else await station.run(job.graph, job.feeds, job.into, job.finite, job.keep);
        return [];
      }),
    stage: (_, call) => inOrder(() => stages.answer(call)),
    forgetGraph: (graph) => void inOrder(() => station.forget(graph.id)),
    forgetMemory: ({ memory, buffer }) =>
      void inOrder(async () => {
        station.forgetBuffer(buffer);
        if (memory) station.forgetMemory(memory);
      }),
    numericsClass: () => inOrder(() => engine.numericsClass()),
    close: () =>
      inOrder(async () => {
        await stages.close();
        await station.close();
      }),
  };
}
