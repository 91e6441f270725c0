// One worker thread of Node (worker-loop.ts does the rest).

import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../../core/assert.ts";
import { openEngine } from "../open.ts";
import { collectGarbage } from "./collect.ts";
import type { ToWorker, WorkerSettings } from "./messages.ts";
import { tableFiles } from "./table-files.ts";
import { WorkerLoop } from "./worker-loop.ts";

const port = parentPort;
assert(port !== null, "the worker file runs as a worker thread");
const settings = workerData as WorkerSettings;
const loop = new WorkerLoop({
  settings,
  opening: openEngine(settings.kind, settings.memory, settings.files?.folder),
  answer: (message, moved) => port.postMessage(message, moved),
  collectGarbage,
  ...(settings.files && { openTable: tableFiles(settings.files) }),
});
port.on("message", (message: ToWorker) => loop.receive(message));
