// The executor on worker threads of Node (pool.ts does the rest).

import { Worker } from "node:worker_threads";
import { moduleBeside } from "../../core/module-beside.ts";
import type { Executor } from "../engine.ts";
import { silenceTelemetry } from "../onnx/native.ts";
import { collectGarbage } from "./collect.ts";
import type { FromWorker } from "./messages.ts";
import { type ExecutorOptions, openPooledExecutor } from "./pool.ts";
import type { WorkerPlatform } from "./seat.ts";

const workerUrl = moduleBeside("./worker.ts", import.meta.url);

const threads: WorkerPlatform = {
  start(settings, { onMessage, onLost }) {
    const worker = new Worker(workerUrl, { workerData: settings, name: `dcnr-${settings.kind}` });
    worker.on("message", (message: FromWorker) => onMessage(message));
    worker.on("error", (error) => onLost(error.message));
    worker.on("exit", (code) => onLost(`it ended with code ${code}`));
    return {
      post: (message, moved) => worker.postMessage(message, moved),
      end: async () => void (await worker.terminate()),
    };
  },
  collectGarbage,
};

/** Resolves when every worker has loaded its engine. */
export function openExecutor(options: ExecutorOptions): Promise<Executor> {
  silenceTelemetry();
  return openPooledExecutor(options, threads);
}
