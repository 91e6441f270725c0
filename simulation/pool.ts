// Runs seeds on several threads. Seeds know nothing of each other, so the report does not depend on how many
// threads there are nor on which thread takes which seed.

import { Worker } from "node:worker_threads";
import { moduleBeside } from "../src/core/module-beside.ts";
import type { RunOptions } from "./network-run.ts";
import { type SeedReport, type SimulationReport, Summary } from "./report.ts";

/** Worlds of another kind than those that seeds draw by themselves. */
export type WorldKind = Pick<RunOptions, "byzantine" | "answers" | "autonomy" | "lanes">;

export interface PoolOptions {
  readonly seeds: readonly number[];
  /** Name of a deliberate protocol fault (mutants.ts). */
  readonly mutant?: string;
  readonly kind?: WorldKind;
  /** Ends early once this many seeds have failed. */
  readonly failuresMax?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, summary: Summary) => void;
}

export interface SeedTask {
  readonly seed: number;
  readonly mutant: string | undefined;
  readonly kind: WorldKind;
}

/**
 * Node keeps a signal that is made of others for as long as anybody listens to it, and a process that crashed in a world never
 * stops listening: about a megabyte a world, and 30 GB of the 128 TB of addresses, since every engine's memory has room to grow.
 * After 4,000 worlds no engine could be opened any more, and all that followed hung.
 */
const seedsPerThread = 200;

/** Threads stay for a while, since each has to compute the undisturbed runs once. */
export class SeedPool {
  readonly #threads: Thread[];

  constructor(workers: number) {
    this.#threads = Array.from({ length: workers }, () => new Thread());
  }

  async run(options: PoolOptions): Promise<SimulationReport> {
    const { seeds, mutant, kind = {}, failuresMax = Number.POSITIVE_INFINITY } = options;
    const summary = new Summary(seeds[0] ?? 0);
    let next = 0;
    let done = 0;
    const take = () => (options.signal?.aborted || summary.failed >= failuresMax ? undefined : seeds[next++]);
    const lane = async (thread: Thread) => {
      for (let seed = take(); seed !== undefined; seed = take()) {
        summary.add(await thread.ask({ seed, mutant, kind }));
        done += 1;
        options.onProgress?.(done, summary);
      }
    };
    await Promise.all(this.#threads.map(lane));
    return summary.report();
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }
}

export async function simulateSeeds(options: PoolOptions & { readonly workers: number }): Promise<SimulationReport> {
  const pool = new SeedPool(Math.min(options.workers, options.seeds.length));
  try {
    return await pool.run(options);
  } finally {
    await pool.close();
  }
}

class Thread {
  #worker = startWorker();
  #asked = 0;

  async ask(task: SeedTask): Promise<SeedReport> {
    if (++this.#asked > seedsPerThread) {
      await this.close();
      this.#worker = startWorker();
      this.#asked = 1;
    }
    return ask(this.#worker, task);
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

function startWorker(): Worker {
  return new Worker(moduleBeside("./worker.ts", import.meta.url));
}

function ask(worker: Worker, task: SeedTask): Promise<SeedReport> {
  return new Promise((resolve, reject) => {
    const onMessage = (report: SeedReport) => {
      worker.off("error", onError);
      resolve(report);
    };
    const onError = (error: unknown) => {
      worker.off("message", onMessage);
      reject(new Error(`seed ${task.seed} ended its thread`, { cause: error }));
    };
    worker.once("message", onMessage);
    worker.once("error", onError);
    worker.postMessage(task);
  });
}
