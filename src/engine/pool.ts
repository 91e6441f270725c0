// A queue by priority before workers, one call at a time per worker and at most one more on its way, blocks and graphs made
// known to a worker when it first needs them. A worker that dies fails its calls and is replaced. What a worker is, a thread of
// Node or a browser's, is the opener's business.

import { assert } from "../core/assert.ts";
import { DcnrError } from "../core/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import type { EngineKind, Executor, KernelResult } from "./engine.ts";
import { type Backend, type DeviceListener, executorOver, type Job } from "./executor.ts";
import { FreedBytes } from "./freed-bytes.ts";
import { KernelRunner, type LoweredCall, lengthOf, viewsOf } from "./kernels.ts";
import { locate, type MemoryBlock, type MemoryPool } from "./memory.ts";
import type { FromWorker, ToWorker, WireData, WireView, WorkerSettings } from "./messages.ts";
import { LinearMemory } from "./portable/linear-memory.ts";
import type { StageAnswer, StageCall } from "./stage/stage-call.ts";
import type { RegisteredGraph } from "./station.ts";
import { lostDevice } from "./webgpu/device.ts";

export interface ExecutorOptions {
  readonly kind: EngineKind;
  readonly workers: number;
  /** Hears once that a device is gone, with everything on it. */
  readonly onLost?: (reason: string) => void;
}

/** A worker that was started. */
export interface WorkerThread {
  post(message: ToWorker, moved: readonly ArrayBuffer[]): void;
  end(): Promise<void>;
}

export interface WorkerListener {
  onMessage(message: FromWorker): void;
  /** It has ended by itself, or does not start. */
  onLost(reason: string): void;
}

/** How workers are started, and garbage is collected where it can be asked for. */
export interface WorkerPlatform {
  start(settings: WorkerSettings, listener: WorkerListener): WorkerThread;
  collectGarbage(): void;
}

/** Resolves when every worker has loaded its engine. */
export async function openPooledExecutor(options: ExecutorOptions, platform: WorkerPlatform): Promise<Executor> {
  let ready: Promise<unknown> = Promise.resolve();
  const memory = options.kind === "portable" ? new LinearMemory() : undefined;
  const executor = executorOver((pool) => {
    const backend = new PooledBackend(options, platform, pool, memory);
    ready = backend.ready();
    return backend;
  }, memory);
  try {
    await ready;
  } catch (thrown) {
    await executor.close();
    throw thrown;
  }
  return executor;
}

/** Up to here kernels take less time in the caller's thread than a message to a worker and back. */
const elementsHereMax = 1 << 16;

/** Whether the engine of that name has memory of its own: what lies there ends with the thread that holds it. */
function isDevice(kind: EngineKind): boolean {
  return kind === "webgpu";
}

function areSmall(calls: readonly LoweredCall[]): boolean {
  return calls.reduce((sum, call) => sum + lengthOf(call), 0) <= elementsHereMax;
}

interface Waiting {
  readonly job:
    | Job
    | { readonly kind: "stage"; readonly call: StageCall }
    | { readonly kind: "class" }
    | { readonly kind: "close" };
  readonly priority: number;
  readonly resolve: (message: FromWorker & { kind: "done" }) => void;
  readonly reject: (error: DcnrError) => void;
}

class PooledBackend implements Backend {
  readonly kind: EngineKind;
  readonly workers: number;
  readonly isElsewhere = true;
  readonly device?: DeviceListener;
  readonly #platform: WorkerPlatform;
  readonly #pool: MemoryPool;
  readonly #seats: Seat[] = [];
  readonly #queue: Waiting[] = [];
  readonly #freed = new FreedBytes();
  #collecting = false;
  #kernels: KernelRunner | undefined;
  #lost: string | undefined;
  #numerics: Promise<string> | undefined;
  #closed = false;

  constructor(
    { kind, workers, onLost }: ExecutorOptions,
    platform: WorkerPlatform,
    pool: MemoryPool,
    memory: LinearMemory | undefined,
  ) {
    this.kind = kind;
    this.#platform = platform;
    // Two threads at once crash the layer above a GPU's driver; it has one queue anyway.
    this.workers = isDevice(kind) ? 1 : Math.max(1, Math.floor(workers));
    this.#pool = pool;
    const settings = { kind, ...(memory && { memory: memory.memory }) };
    const lost = (reason: string) => {
      if (this.#lost === undefined) onLost?.(reason);
      this.#lost ??= reason;
    };
    for (let i = 0; i < this.workers; i++)
      this.#seats.push(new Seat(settings, platform, pool, () => this.#dispatch(), lost));
    const [only] = this.#seats;
    if (isDevice(kind) && only !== undefined) this.device = only;
  }

  get lost(): string | undefined {
    return this.#lost;
  }

  async ready(): Promise<void> {
    await Promise.all(this.#seats.map((seat) => seat.opened));
  }

  async submit(job: Job, priority: number): Promise<readonly KernelResult[]> {
    if (job.kind === "kernels" && this.device === undefined && areSmall(job.calls)) return this.#here(job.calls);
    const { results } = await new Promise<FromWorker & { kind: "done" }>((resolve, reject) => {
      this.#enqueue({ job, priority, resolve, reject });
    });
    return results;
  }

  /** A stage stays with its worker, where its caches are. */
  async stage(number: number, call: StageCall): Promise<StageAnswer> {
    const seat = this.#seats[number % this.workers] as Seat;
    const { stage } = await new Promise<FromWorker & { kind: "done" }>((resolve, reject) => {
      seat.whenIdle({ job: { kind: "stage", call }, priority: 0, resolve, reject });
    });
    return stage ?? {};
  }

  #here(calls: readonly LoweredCall[]): readonly KernelResult[] {
    this.#kernels ??= new KernelRunner();
    const views = calls.map((call) => viewsOf(call).map((view) => locate(view, this.#pool)));
    return this.#kernels.runAll(calls, views);
  }

  /** Behind the last call of at least its priority. */
  #enqueue(waiting: Waiting): void {
    let at = this.#queue.length;
    while (at > 0 && (this.#queue[at - 1] as Waiting).priority < waiting.priority) at--;
    this.#queue.splice(at, 0, waiting);
    this.#dispatch();
  }

  #dispatch(): void {
    if (this.#seats.length === this.workers && this.#seats.every((seat) => seat.isBroken))
      for (const { reject } of this.#queue.splice(0))
        reject(
          new DcnrError("unavailable", `no ${this.kind} worker can be started: see the log, then restart the process`),
        );
    while (this.#queue.length > 0) {
      const waiting = this.#queue[0] as Waiting;
      const seat = this.#bestIdle(waiting.job) ?? this.#ahead();
      if (seat === undefined) return;
      this.#queue.shift();
      seat.start(waiting);
    }
  }

  /** An idle worker that has the graph already, else any idle one. */
  #bestIdle(job: Waiting["job"]): Seat | undefined {
    const idle = this.#seats.filter((seat) => seat.isIdle);
    if (job.kind !== "run") return idle[0];
    return idle.find((seat) => seat.knowsGraph(job.graph.id)) ?? idle[0];
  }

  /**
   * A busy worker that may be given its next call already, so that it need not wait for this thread in between. Only
   * while every worker has one to come: otherwise a call could wait behind a long one while another worker is idle.
   */
  #ahead(): Seat | undefined {
    if (this.#queue.length < this.workers) return undefined;
    return this.#seats.find((seat) => seat.takesAhead);
  }

  forgetGraph(graph: RegisteredGraph): void {
    // Calls that wait still need it: they make it known again, and the worker keeps it until it closes.
    for (const seat of this.#seats) seat.forget([graph.id], []);
  }

  forgetMemory(block: MemoryBlock): void {
    if (block.memory !== undefined) this.#kernels?.forget(block.memory);
    for (const seat of this.#seats) seat.forget([], [block.id]);
    this.#freed.add(block.buffer.byteLength);
    if (this.#collecting || !this.#freed.isWorthCollecting()) return;
    // Blocks are freed in groups: one collection after the last of them serves all.
    this.#collecting = true;
    queueMicrotask(() => {
      this.#collecting = false;
      for (const seat of this.#seats) seat.collect();
      this.#platform.collectGarbage();
    });
  }

  numericsClass(): Promise<string> {
    this.#numerics ??= this.#agreedClass();
    return this.#numerics;
  }

  async #agreedClass(): Promise<string> {
    const classes = await Promise.all(
      this.#seats.map(
        (seat) =>
          new Promise<FromWorker & { kind: "done" }>((resolve, reject) => {
            seat.whenIdle({ job: { kind: "class" }, priority: 0, resolve, reject });
          }),
      ),
    );
    const [first, ...others] = classes.map(({ numerics }) => numerics ?? "");
    const different = others.find((other) => other !== first);
    if (first === undefined || different !== undefined)
      throw new DcnrError("internal", `workers of one machine compute different bits: ${first} and ${different}`);
    return first;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const waiting of this.#queue.splice(0)) waiting.reject(new DcnrError("cancelled", "the executor was closed"));
    await Promise.all(this.#seats.map((seat) => seat.close()));
    this.#pool.trim();
  }
}

/** One worker thread and what it knows. */
class Seat implements DeviceListener {
  readonly #settings: WorkerSettings;
  readonly #platform: WorkerPlatform;
  readonly #pool: MemoryPool;
  readonly #freed: () => void;
  readonly #onLost: (reason: string) => void;
  readonly #graphs = new Set<number>();
  readonly #blocks = new Set<number>();
  readonly #asides: Waiting[] = [];
  /** The call that runs, and perhaps the one after it. */
  readonly #started: Waiting[] = [];
  #worker: WorkerThread;
  #isReady = false;
  #isBroken = false;
  #closing = false;
  opened: Promise<void>;
  #settleOpened: { resolve: () => void; reject: (error: DcnrError) => void } | undefined;

  constructor(
    settings: WorkerSettings,
    platform: WorkerPlatform,
    pool: MemoryPool,
    freed: () => void,
    onLost: (reason: string) => void,
  ) {
    this.#settings = settings;
    this.#platform = platform;
    this.#pool = pool;
    this.#freed = freed;
    this.#onLost = onLost;
    this.opened = new Promise((resolve, reject) => {
      this.#settleOpened = { resolve, reject };
    });
    this.#worker = this.#spawn();
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  get isIdle(): boolean {
    return this.#isReady && this.#started.length === 0 && !this.#closing;
  }

  get takesAhead(): boolean {
    return this.#isReady && this.#started.length === 1 && this.#asides.length === 0 && !this.#closing;
  }

  knowsGraph(id: number): boolean {
    return this.#graphs.has(id);
  }

  #spawn(): WorkerThread {
    const worker = this.#platform.start(this.#settings, {
      onMessage: (message) => this.#receive(message),
      onLost: (reason) => {
        if (this.#worker === worker) this.#lost(reason);
      },
    });
    return worker;
  }

  #receive(message: FromWorker): void {
    if (message.kind === "ready") {
      this.#isReady = true;
      this.#settleOpened?.resolve();
      this.#next();
      return;
    }
    if (!this.#isReady && message.kind === "failed") {
      this.#isBroken = true;
      this.#settleOpened?.reject(
        new DcnrError(message.code, `the ${this.#settings.kind} engine does not start: ${message.message}`),
      );
      return;
    }
    const ended = this.#started.shift();
    if (message.kind === "failed" && message.message.startsWith(lostDevice)) this.#onLost(message.message);
    if (message.kind === "done") ended?.resolve(message);
    else ended?.reject(new DcnrError(message.code, message.message));
    this.#next();
  }

  #next(): void {
    const aside = this.#started.length === 0 && this.#isReady ? this.#asides.shift() : undefined;
    if (aside !== undefined) this.start(aside);
    else this.#freed();
  }

  /** A worker died: its calls fail, the callers may try again on the one that takes its place. */
  #lost(reason: string): void {
    if (this.#closing) return;
    const error = new DcnrError(
      "unavailable",
      isDevice(this.#settings.kind)
        ? `${lostDevice}: the thread that held it ended (${reason})`
        : `a compute worker died: ${reason}. The call can be repeated`,
    );
    const failed = this.#started.splice(0);
    this.#graphs.clear();
    this.#blocks.clear();
    if (!this.#isReady || isDevice(this.#settings.kind)) {
      // It cannot even start, and trying again for ever would only hide why; or what lay on the device is gone with it.
      this.#isBroken = true;
      this.#isReady = false;
      this.#settleOpened?.reject(error);
      if (isDevice(this.#settings.kind)) this.#onLost(error.message);
      for (const { reject } of [...failed, ...this.#asides.splice(0)]) reject(error);
      this.#freed();
      return;
    }
    this.#isReady = false;
    this.#worker = this.#spawn();
    for (const { reject } of failed) reject(error);
  }

  whenIdle(waiting: Waiting): void {
    if (this.#isBroken) {
      waiting.reject(new DcnrError("unavailable", `no ${this.#settings.kind} worker can be started`));
      return;
    }
    this.#asides.push(waiting);
    if (this.isIdle) this.#next();
  }

  start(waiting: Waiting): void {
    this.#started.push(waiting);
    const { job } = waiting;
    const moved: ArrayBuffer[] = [];
    if (job.kind === "run") {
      const { id, model } = job.graph;
      if (!this.#graphs.has(id)) this.#tell({ kind: "graph", id, model });
      this.#graphs.add(id);
      const feeds = model.inputs.map(({ name }) =>
        this.#wire(job.feeds[name] as Tensor, job.transfer ? moved : undefined),
      );
      const into = model.outputs.map(({ name }) => this.#wire(job.into[name] as Tensor));
      this.#tell({ kind: "run", graph: id, feeds, into, finite: job.finite, keep: job.keep }, moved);
    } else if (job.kind === "kernels") {
      const operands = job.calls.map((call) => this.#wires(viewsOf(call)));
      const calls = job.calls.map((call) => ({ ...call, operands: call.operands.map(({ writes }) => ({ writes })) }));
      this.#tell({ kind: "kernels", calls: calls as never, operands });
    } else if (job.kind === "download") this.#tell({ kind: "download", views: this.#wires(job.views) });
    else if (job.kind === "stage") this.#tellStage(job.call);
    else this.#tell(job);
  }

  lasts(buffer: SharedArrayBuffer): void {
    this.#tell({ kind: "lasts", block: this.#known(buffer) });
  }

  wrote(views: readonly Float32Array[]): void {
    this.#tell({ kind: "wrote", views: this.#wires(views) });
  }

  discard(buffer: SharedArrayBuffer): void {
    this.#tell({ kind: "discard", block: this.#known(buffer) });
  }

  #wires(views: readonly Float32Array[]): WireView[] {
    return views.map((view) => ({ ...this.#wire({ data: view }), length: view.length }));
  }

  /** The number of a block of the pool that the worker knows by now. */
  #known(buffer: SharedArrayBuffer): number {
    const wire = this.#wire({ data: new Uint8Array(buffer) });
    assert("block" in wire, "what a device is told of lies in the executor's memory");
    return wire.block;
  }

  #tellStage(call: StageCall): void {
    const weights = call.kind === "load" ? call.weights : {};
    const bare = Object.entries(weights).map(([name, each]) => [name, { ...each, data: new Uint8Array(0) }]);
    const told = call.kind === "load" ? { ...call, weights: Object.fromEntries(bare) } : call;
    this.#tell({
      ...{ kind: "stage", call: told },
      weights: Object.values(weights).map((tensor) => this.#wire(tensor)),
    });
  }

  #wire({ data }: Pick<Tensor, "data">, moved?: ArrayBuffer[]): WireData {
    const block = this.#pool.blockOf(data.buffer);
    if (block === undefined) {
      if (moved !== undefined && data.buffer instanceof ArrayBuffer && !moved.includes(data.buffer))
        moved.push(data.buffer);
      return { data };
    }
    if (!this.#blocks.has(block.id)) this.#tell({ kind: "block", id: block.id, memory: block.memory ?? block.buffer });
    this.#blocks.add(block.id);
    return { block: block.id, offset: data.byteOffset };
  }

  #tell(message: ToWorker, moved: ArrayBuffer[] = []): void {
    this.#worker.post(message, moved);
  }

  forget(graphs: readonly number[], blocks: readonly number[]): void {
    const known = {
      graphs: graphs.filter((id) => this.#graphs.delete(id)),
      blocks: blocks.filter((id) => this.#blocks.delete(id)),
    };
    if (known.graphs.length + known.blocks.length > 0) this.#tell({ kind: "forget", ...known });
  }

  collect(): void {
    this.#tell({ kind: "collect" });
  }

  async close(): Promise<void> {
    this.#closing = true;
    const error = new DcnrError("cancelled", "the executor was closed");
    for (const { reject } of [...this.#started.splice(0), ...this.#asides.splice(0)]) reject(error);
    await this.#worker.end();
  }
}
