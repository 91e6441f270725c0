// One worker of a page: the portable engine, exact numerics on it, or the browser's GPU, and nothing else. What it is given first is the
// memory that all of them share.

import type { Engine } from "../engine/engine.ts";
import { openExactEngine } from "../engine/exact/engine.ts";
import type { ToWorker } from "../engine/pool/messages.ts";
import { WorkerLoop } from "../engine/pool/worker-loop.ts";
import { openPortableEngine } from "../engine/portable/engine.ts";
import { LinearMemory } from "../engine/portable/linear-memory.ts";
import { openWgslEngine } from "../engine/wgsl/engine.ts";
import type { TabWorkerSettings } from "./messages.ts";

let loop: WorkerLoop | undefined;

self.onmessage = ({ data }: MessageEvent<TabWorkerSettings | ToWorker>) => {
  if (loop !== undefined) return loop.receive(data as ToWorker);
  const settings = data as TabWorkerSettings;
  loop = new WorkerLoop({
    settings,
    opening: engineOf(settings),
    answer: (message, moved) => self.postMessage(message, { transfer: moved }),
    collectGarbage: () => {},
  });
};

async function engineOf({ kind, memory, gpuBytesMax }: TabWorkerSettings): Promise<Engine> {
  if (kind === "webgpu")
    return openWgslEngine({
      gpu: navigator.gpu,
      browser: compiledBy(navigator.userAgent),
      ...(gpuBytesMax && { bytesMax: gpuBytesMax }),
    });
  const open = kind === "exact" ? openExactEngine : openPortableEngine;
  return open({ memory: new LinearMemory(memory) });
}

/** What compiles shaders: the browser's engine and its version. */
function compiledBy(agent: string): string {
  return agent.match(/(Firefox|Chrome)\/\d+/)?.[0] ?? agent.match(/Version\/[\d.]+ .*Safari/)?.[0] ?? agent;
}
