// A queue by priority before workers (seat.ts), one call at a time per worker and at most one more on its way.

import { DcnrError } from "../../core/errors.ts";
import type { EngineKind, Executor, KernelResult } from "../engine.ts";
import { type Backend, type DeviceListener, executorOver, type Job } from "../executor.ts";
import { KernelRunner, type LoweredCall, lengthOf, viewsOf } from "../kernels/kernels.ts";
import { LinearMemory } from "../portable/linear-memory.ts";
import type { StageAnswer, StageCall } from "../stage/stage-call.ts";
import { FreedBytes } from "./freed-bytes.ts";
import { locate, type MemoryBlock, type MemoryPool } from "./memory.ts";
import type { FromWorker, WorkerFiles } from "./messages.ts";
import type { Pace } from "./pace.ts";
import { isDevice, Seat, type Waiting, type WorkerPlatform } from "./seat.ts";
import type { RegisteredGraph } from "./station.ts";

export interface ExecutorOptions {
  readonly kind: EngineKind;
  readonly workers: number;
  /** By which calls begin; as soon as a worker is free if absent. */
  readonly pace?: Pace;
  /** For all workers together; absent: everything lies in memory. */
  readonly files?: WorkerFiles;
  /** Hears once that a device is gone, with everything on it. */
  readonly onLost?: (reason: string) => void;
}

/** Resolves when every worker has loaded its engine. */
export async function openPooledExecutor(options: ExecutorOptions, platform: WorkerPlatform): Promise<Executor> {
  let ready: Promise<unknown> = Promise.resolve();
  const memory = options.kind === "portable" || options.kind === "exact" ? new LinearMemory() : undefined;
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

function areSmall(calls: readonly LoweredCall[]): boolean {
  return calls.reduce((sum, call) => sum + lengthOf(call), 0) <= elementsHereMax;
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
  readonly #pace: Pace | undefined;
  #resting = false;
  /** Calls of stages begin in their order, also after a rest. */
  #stageTurn: Promise<void> = Promise.resolve();
  #collecting = false;
  /** Units were loaded, and none of them has run since. */
  #hasLoaded = false;
  #kernels: KernelRunner | undefined;
  #lost: string | undefined;
  #numerics: Promise<string> | undefined;
  #closed = false;

  constructor(
    { kind, workers, pace, files, onLost }: ExecutorOptions,
    platform: WorkerPlatform,
    pool: MemoryPool,
    memory: LinearMemory | undefined,
  ) {
    this.kind = kind;
    this.#platform = platform;
    // Two threads at once crash the layer above a GPU's driver; it has one queue anyway.
    this.workers = isDevice(kind) ? 1 : Math.max(1, Math.floor(workers));
    this.#pool = pool;
    this.#pace = pace;
    const share = files && { ...files, bytesMax: files.bytesMax / this.workers };
    const settings = { kind, ...(memory && { memory: memory.memory }), ...(share && { files: share }) };
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
    if (this.#pace !== undefined) await this.#nextStageTurn(this.#pace);
    const { stage } = await new Promise<FromWorker & { kind: "done" }>((resolve, reject) => {
      seat.whenIdle({ job: { kind: "stage", call }, priority: 0, resolve, reject });
    });
    if (call.kind === "load") {
      this.#freed.expectRest();
      this.#hasLoaded = true;
    } else if (call.kind === "run" && this.#hasLoaded) this.#collectRest();
    return stage ?? {};
  }

  #nextStageTurn(pace: Pace): Promise<void> {
    this.#stageTurn = this.#stageTurn.then(async () => {
      for (let rest = pace.rest(); rest !== undefined && !this.#closed; rest = pace.rest()) await rest;
    });
    return this.#stageTurn;
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
      if (seat === undefined || this.#rests()) return;
      this.#queue.shift();
      seat.start(waiting);
    }
  }

  /** Whether it is too early for the next call; if so, it is looked at again when it is time. */
  #rests(): boolean {
    if (this.#resting) return true;
    const rest = this.#pace?.rest();
    if (rest === undefined) return false;
    this.#resting = true;
    void rest.then(() => {
      this.#resting = false;
      if (!this.#closed) this.#dispatch();
    });
    return true;
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
      this.#collect();
    });
  }

  /** Whoever loads the last unit still knows its weights when they are freed; by the time of the first pass nobody does. */
  #collectRest(): void {
    this.#hasLoaded = false;
    this.#collect();
  }

  #collect(): void {
    for (const seat of this.#seats) seat.collect();
    this.#platform.collectGarbage();
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
