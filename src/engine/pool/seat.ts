// One worker of an executor and what it knows: blocks and graphs are made known to it when it first needs them. A worker that
// dies fails its calls and is replaced. What a worker is, a thread of Node or a browser's, is the opener's business.

import { assert } from "../../core/assert.ts";
import { DcnrError } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { EngineKind } from "../engine.ts";
import type { DeviceListener, Job } from "../executor.ts";
import { viewsOf } from "../kernels/kernels.ts";
import type { StageCall } from "../stage/stage-call.ts";
import { lostDevice } from "../webgpu/device.ts";
import type { MemoryPool } from "./memory.ts";
import type { FromWorker, ToWorker, WireData, WireView, WorkerSettings } from "./messages.ts";

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

/** Whether the engine of that name has memory of its own: what lies there ends with the thread that holds it. */
export function isDevice(kind: EngineKind): boolean {
  return kind === "webgpu" || kind === "exact-webgpu";
}

/** A call, and who waits for its end. */
export interface Waiting {
  readonly job:
    | Job
    | { readonly kind: "stage"; readonly call: StageCall }
    | { readonly kind: "class" }
    | { readonly kind: "close" };
  readonly priority: number;
  readonly resolve: (message: FromWorker & { kind: "done" }) => void;
  readonly reject: (error: DcnrError) => void;
}

/** One worker thread and what it knows. */
export class Seat implements DeviceListener {
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
    const wires = Object.values(weights).map((tensor) => this.#wire(tensor));
    this.#tell({ kind: "stage", call: told, weights: wires }, call.kind === "run" ? [...call.spare] : []);
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
