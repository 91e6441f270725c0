// Runs seeds on several threads. Seeds know nothing of each other, so the report does not depend on how many
// threads there are nor on which thread takes which seed.

import { Worker } from "node:worker_threads";
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

/** Threads stay, since each has to compute the undisturbed runs once. */
export class SeedPool {
  readonly #workers: Worker[];

  constructor(workers: number) {
    this.#workers = Array.from({ length: workers }, startWorker);
  }

  async run(options: PoolOptions): Promise<SimulationReport> {
    const { seeds, mutant, kind = {}, failuresMax = Number.POSITIVE_INFINITY } = options;
    const summary = new Summary(seeds[0] ?? 0);
    let next = 0;
    let done = 0;
    const take = () => (options.signal?.aborted || summary.failed >= failuresMax ? undefined : seeds[next++]);
    const lane = async (worker: Worker) => {
      for (let seed = take(); seed !== undefined; seed = take()) {
        summary.add(await ask(worker, { seed, mutant, kind }));
        done += 1;
        options.onProgress?.(done, summary);
      }
    };
    await Promise.all(this.#workers.map(lane));
    return summary.report();
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
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

function startWorker(): Worker {
  return new Worker(new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url));
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
