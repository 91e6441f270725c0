// Runs seeds on several threads. Seeds know nothing of each other, so the report does not depend on how many
// threads there are nor on which thread takes which seed.

import { Worker } from "node:worker_threads";
import { type SeedReport, type SimulationReport, Summary } from "./report.ts";

export interface PoolOptions {
  readonly seeds: readonly number[];
  readonly workers: number;
  /** Name of a deliberate protocol fault (mutants.ts). */
  readonly mutant?: string;
  /** Ends early once this many seeds have failed. */
  readonly failuresMax?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, summary: Summary) => void;
}

export interface SeedTask {
  readonly seed: number;
  readonly mutant: string | undefined;
}

export async function simulateSeeds(options: PoolOptions): Promise<SimulationReport> {
  const { seeds, workers, failuresMax = Number.POSITIVE_INFINITY } = options;
  const summary = new Summary(seeds[0] ?? 0);
  let next = 0;
  let done = 0;
  const take = () => (options.signal?.aborted || summary.failed >= failuresMax ? undefined : seeds[next++]);
  const lane = async () => {
    const worker = new Worker(new URL("./worker.ts", import.meta.url));
    try {
      for (let seed = take(); seed !== undefined; seed = take()) {
        summary.add(await ask(worker, { seed, mutant: options.mutant }));
        done += 1;
        options.onProgress?.(done, summary);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(workers, seeds.length) }, lane));
  return summary.report();
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
