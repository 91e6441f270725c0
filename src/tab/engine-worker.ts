// One worker of a page: the portable engine, or exact numerics on it, and nothing else. What it is given first is the memory that all of
// them share.

import { openExactEngine } from "../engine/exact/engine.ts";
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
    opening: (async () => {
      const open = settings.kind === "exact" ? openExactEngine : openPortableEngine;
      return open({ memory: new LinearMemory(settings.memory) });
    })(),
    answer: (message, moved) => self.postMessage(message, { transfer: moved }),
    collectGarbage: () => {},
  });
};
