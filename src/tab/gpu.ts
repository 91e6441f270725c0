// The GPU that a browser gives its pages, if it does: an executor on it, in one worker, with its class and its speed. What hinders it is
// one sentence, and the page lends its processor alone.

import { messageOf } from "../core/errors.ts";
import { sleep, type Timers } from "../core/world.ts";
import type { Executor } from "../engine/engine.ts";
import { deviceGflops } from "../engine/webgpu/speed.ts";
import { openTabExecutor } from "./engine.ts";

export interface TabGpu {
  readonly executor: Executor;
  readonly class: string;
  readonly gflops: number;
  readonly vendor: string;
  readonly model: string;
  readonly memoryBytes: number;
}

export interface TabGpuOptions {
  readonly timers: Timers;
  /** Where engine-worker.ts is served. */
  readonly script: string;
  readonly memoryBytes: number;
  /** Hears once that it is gone, with everything on it. */
  readonly onLost: (reason: string) => void;
}

/** Compiling takes some seconds, and half a minute in software on a busy machine; a driver that hangs takes for ever. */
const patienceMs = 100_000;

/** Or why there is none. */
export async function openTabGpu(options: TabGpuOptions): Promise<TabGpu | string> {
  const opening = opened(options);
  const patience = new AbortController();
  const late = sleep(options.timers, patienceMs, patience.signal).then(() => undefined);
  const found = await Promise.race([opening, late]);
  patience.abort();
  if (found !== undefined) return found;
  void opening.then((gpu) => (typeof gpu === "string" ? undefined : gpu.executor.close()));
  return "the GPU's driver does not answer";
}

async function opened({ script, memoryBytes, onLost }: TabGpuOptions): Promise<TabGpu | string> {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) return "this browser gives pages no GPU";
  const { vendor, architecture, device, description } = adapter.info;
  const model = description || [architecture, device].filter((word) => word !== "").join(" ") || "of an unknown kind";
  let executor: Executor | undefined;
  try {
    executor = await openTabExecutor(script, 1, "webgpu", { gpuBytesMax: memoryBytes, onLost });
    // The class is asked for first: it compiles what the speed needs.
    const own = await executor.numericsClass();
    const gflops = await deviceGflops(executor, () => performance.now());
    return { executor, class: own, gflops, vendor, model, memoryBytes };
  } catch (thrown) {
    await executor?.close();
    return messageOf(thrown);
  }
}
