// Works in threads of their own (core/aside.ts): a thread per lane, started when it is needed, killed when a work takes too
// long or too much memory, ended when there is nothing to do.

import { setImmediate as othersTurn } from "node:timers/promises";
import { deserialize } from "node:v8";
import { Worker } from "node:worker_threads";
import type { Aside, Lane, Work } from "../../core/aside.ts";
import { DcnrError, type ErrorCode, type Outlook } from "../../core/errors.ts";
import { moduleBeside } from "../../core/module-beside.ts";

/** What the thread is told: to load a module for later, or to do a work of it. */
export type AsideOrder =
  | { readonly module: string; readonly name?: undefined }
  | { readonly module: string; readonly name: string; readonly input: unknown };

/** What it answers: `begun` once the module is loaded, then a result; of a module for later, whether it was loaded. */
export type AsideAnswer =
  | { readonly kind: "ready"; readonly module: string; readonly loaded: boolean }
  | { readonly kind: "begun" }
  | { readonly kind: "done"; readonly pieces: readonly Uint8Array[] }
  | {
      readonly kind: "failed";
      readonly message: string;
      /** Absent: not an expected failure. */
      readonly code?: ErrorCode;
      readonly outlook?: Outlook;
    };

/** Loading a module takes a fraction of a second; a machine that needs longer is overloaded. */
const loadMsMax = 60_000;
/** So many times as long as a work may compute it may take on a busy machine. */
const busyFactor = 30;
/** A thread is asked for its time no more often, and has so long to say it. */
const lookMsMin = 50;
const answerMs = 2_000;
/** More would wait longer than whoever asked. */
const waitingMax = 256;

interface Job {
  readonly work: Work<unknown, unknown>;
  readonly input: unknown;
  readonly resolve: (pieces: readonly Uint8Array[]) => void;
  readonly reject: (error: Error) => void;
}

export interface ThreadAside extends Aside {
  /**
   * Starts the thread of a work's lane now and keeps it from then on: to start it and load its modules costs a third of a second of the
   * processor, which is ten seconds where thirty others want it. Resolves when it is ready; false if it cannot be.
   */
  keepReady(work: Pick<Work<never, unknown>, "lane" | "module">): Promise<boolean>;
  /** Ends all threads; what is under way fails. */
  close(): Promise<void>;
}

export function openAside(): ThreadAside {
  const threads = new Map<string, LaneThread>();
  const threadOf = (lane: Lane): LaneThread => {
    const thread = threads.get(lane.name) ?? new LaneThread(lane);
    threads.set(lane.name, thread);
    return thread;
  };
  return {
    keepReady: ({ lane, module }) => threadOf(lane).keepReady(module),
    async run<Input, Piece>(work: Work<Input, Piece>, input: Input): Promise<Piece[]> {
      const packed = await threadOf(work.lane).run(work as Work<unknown, unknown>, input);
      const pieces: Piece[] = [];
      for (const piece of packed) {
        if (pieces.length > 0) await othersTurn();
        pieces.push(deserialize(piece) as Piece);
      }
      return pieces;
    },
    async close() {
      await Promise.all([...threads.values()].map((thread) => thread.close()));
    },
  };
}

const threadUrl = moduleBeside("./aside-thread.ts", import.meta.url);

class LaneThread {
  readonly #lane: Lane;
  readonly #waiting: Job[] = [];
  #current: Job | undefined;
  #worker: Worker | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Loaded before anybody asks, and again after a work that had to be killed. */
  #kept: string | undefined;
  #onReady: ((loaded: boolean) => void) | undefined;
  #closed = false;

  constructor(lane: Lane) {
    this.#lane = lane;
  }

  run(work: Work<unknown, unknown>, input: unknown): Promise<readonly Uint8Array[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= waitingMax)
        reject(new DcnrError("resource_exhausted", `too much is being asked for at once: ${work.what} has to wait`));
      else this.#waiting.push({ work, input, resolve, reject });
      this.#next();
    });
  }

  keepReady(module: string): Promise<boolean> {
    this.#kept = module;
    return new Promise((resolve) => {
      this.#onReady = resolve;
      if (this.#current === undefined) this.#rest();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#onReady?.(false);
    const stopped = new DcnrError("cancelled", "the process stops");
    for (const { reject } of this.#waiting.splice(0)) reject(stopped);
    await this.#kill(stopped);
  }

  #next(): void {
    if (this.#current !== undefined) return;
    const job = this.#waiting.shift();
    if (job === undefined) {
      this.#rest();
      return;
    }
    this.#current = job;
    this.#worker ??= this.#start();
    this.#worker.ref();
    const { module, name, what } = job.work;
    this.#expire(loadMsMax, () => tooBusy(what));
    try {
      this.#worker.postMessage({ module, name, input: job.input } satisfies AsideOrder);
    } catch (thrown) {
      this.#settle((failed) => failed.reject(thrown as Error));
    }
  }

  /** Nothing to do: the thread stays for a while, with what it remembers, or for good. */
  #rest(): void {
    clearTimeout(this.#timer);
    if (this.#kept !== undefined && !this.#closed) {
      this.#worker ??= this.#start();
      this.#worker.postMessage({ module: this.#kept } satisfies AsideOrder);
      return;
    }
    this.#worker?.unref();
    this.#timer = setTimeout(() => void this.#kill(), this.#lane.idleMs);
    this.#timer.unref();
  }

  #start(): Worker {
    const { memoryMib, name } = this.#lane;
    const worker = new Worker(threadUrl, {
      name: `dcnr-${name}`,
      resourceLimits: { maxOldGenerationSizeMb: memoryMib },
    });
    worker.on("message", (answer: AsideAnswer) => this.#hear(answer));
    worker.on("error", (error) => this.#died(worker, error));
    worker.on("exit", () => this.#died(worker, new Error(`the thread for ${name} ended`)));
    return worker;
  }

  #hear(answer: AsideAnswer): void {
    switch (answer.kind) {
      case "ready":
        if (this.#current === undefined) this.#worker?.unref();
        if (answer.module === this.#kept) this.#onReady?.(answer.loaded);
        break;
      case "begun":
        this.#begun();
        break;
      case "done":
        this.#settle(({ resolve }) => resolve(answer.pieces));
        break;
      case "failed":
        this.#settle(({ reject }) => reject(errorOf(answer)));
        break;
    }
  }

  /**
   * What it takes is counted in time of the processor, where the thread can be asked for it: on a busy machine an honest work takes long, and
   * is not to be refused for that. What others wait for in the same lane is bounded by the clock all the same.
   */
  #begun(): void {
    const [job, worker] = [this.#current, this.#worker];
    if (job === undefined || worker === undefined) return;
    const { what, deadlineMs } = job.work;
    const before = cpuMsOf(worker);
    const look = async (waitedMs: number): Promise<void> => {
      const [from, to] = await Promise.all([before, cpuMsOf(worker)]);
      if (this.#current !== job || this.#worker !== worker) return;
      const leftMs = from === undefined || to === undefined ? 0 : Math.ceil(deadlineMs - (to - from));
      if (leftMs <= 0)
        return this.#kill(
          new DcnrError("invalid_argument", `reading ${what} took longer than ${deadlineMs / 1_000} s`),
        );
      if (waitedMs >= busyFactor * deadlineMs) return this.#kill(tooBusy(what));
      const nextMs = Math.max(leftMs, lookMsMin);
      this.#timer = setTimeout(() => void look(waitedMs + nextMs), nextMs);
    };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void look(deadlineMs), deadlineMs);
  }

  #expire(afterMs: number, error: () => DcnrError): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#kill(error()), afterMs);
  }

  #settle(tell: (job: Job) => void): void {
    clearTimeout(this.#timer);
    const job = this.#current;
    this.#current = undefined;
    if (job !== undefined) tell(job);
    this.#next();
  }

  #died(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    // It died by itself: the next work gets another, and says what is wrong.
    if (this.#current === undefined) {
      this.#onReady?.(false);
      return;
    }
    const { what } = this.#current.work;
    const outOfMemory = (error as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY";
    const sentence = `reading ${what} took more than ${this.#lane.memoryMib} MiB of memory`;
    this.#settle(({ reject }) => reject(outOfMemory ? new DcnrError("invalid_argument", sentence) : error));
  }

  /** With an error the current work fails and the next one gets a new thread. */
  async #kill(error?: DcnrError): Promise<void> {
    clearTimeout(this.#timer);
    const worker = this.#worker;
    this.#worker = undefined;
    const ended = worker?.terminate();
    if (error !== undefined) this.#settle(({ reject }) => reject(error));
    await ended;
  }
}

function tooBusy(what: string): DcnrError {
  return new DcnrError("unavailable", `this machine is too busy to read ${what}`);
}

/** Of one thread since it started; undefined if it cannot tell, or not now. */
function cpuMsOf(worker: Worker): Promise<number | undefined> {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const late = setTimeout(() => resolve(undefined), answerMs);
  // Only newer versions of Node can tell.
  const asked = (worker as { cpuUsage?: () => Promise<NodeJS.CpuUsage> }).cpuUsage?.() ?? Promise.reject();
  asked.then(
    ({ user, system }) => resolve((user + system) / 1_000),
    () => resolve(undefined),
  );
  return promise.finally(() => clearTimeout(late));
}

function errorOf({ message, code, outlook }: AsideAnswer & { kind: "failed" }): Error {
  if (code === undefined) return new Error(message);
  return new DcnrError(code, message, outlook && { outlook });
}
