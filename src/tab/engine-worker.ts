// One worker of a page: the portable engine and nothing else. What it is given first is the memory that all of them share.

import type { ToWorker, WorkerSettings } from "../engine/pool/messages.ts";
import { WorkerLoop } from "../engine/pool/worker-loop.ts";
import { openPortableEngine } from "../engine/portable/engine.ts";
import { LinearMemory } from "../engine/portable/linear-memory.ts";

let loop: WorkerLoop | undefined;

self.onmessage = ({ data }: MessageEvent<WorkerSettings | ToWorker>) => {
  if (loop !== undefined) return loop.receive(data as ToWorker);
  const settings = data as WorkerSettings;
  loop = new WorkerLoop({
    settings,
    opening: (async () => openPortableEngine({ memory: new LinearMemory(settings.memory) }))(),
    answer: (message) => self.postMessage(message),
    collectGarbage: () => {},
  });
};
