// The executor of a page: the pool of src/engine on the browser's own workers.

import type { Executor } from "../engine/engine.ts";
import type { FromWorker } from "../engine/pool/messages.ts";
import { openPooledExecutor } from "../engine/pool/pool.ts";
import type { TabWorkerSettings } from "./messages.ts";

export type TabEngine = "portable" | "exact" | "webgpu";

export interface TabExecutorOptions extends Pick<TabWorkerSettings, "gpuBytesMax"> {
  /** Hears once that a GPU is gone, with everything on it. */
  readonly onLost?: (reason: string) => void;
}

/** `script`: where engine-worker.ts is served. Resolves when every worker has loaded its engine. */
export function openTabExecutor(
  script: string,
  workers: number,
  kind: TabEngine = "portable",
  { gpuBytesMax, onLost }: TabExecutorOptions = {},
): Promise<Executor> {
  return openPooledExecutor(
    { kind, workers, ...(onLost && { onLost }) },
    {
      start(settings, { onMessage, onLost: onEnded }) {
        const worker = new Worker(script, { type: "module", name: `dcnr-${kind}` });
        worker.onmessage = ({ data }: MessageEvent<FromWorker>) => onMessage(data);
        worker.onerror = ({ message }) => onEnded(message || "its script cannot be loaded");
        worker.postMessage({ ...settings, ...(gpuBytesMax && { gpuBytesMax }) } satisfies TabWorkerSettings);
        return {
          post: (message, moved) => worker.postMessage(message, [...moved]),
          end: async () => worker.terminate(),
        };
      },
      collectGarbage: () => {},
    },
  );
}
