// A thread of the simulator: takes a seed, runs it, sends what it found.

import { parentPort } from "node:worker_threads";
import type { SeedTask } from "./pool.ts";
import { runSeed } from "./run.ts";

parentPort?.on("message", ({ seed, mutant, kind }: SeedTask) => {
  runSeed(seed, { ...kind, ...(mutant === undefined ? {} : { mutant }) }).then(
    (report) => parentPort?.postMessage(report),
    (error) => {
      throw error;
    },
  );
});
