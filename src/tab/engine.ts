// The executor of a page: the pool of src/engine on the browser's own workers.

import type { Executor } from "../engine/engine.ts";
import type { FromWorker } from "../engine/pool/messages.ts";
import { openPooledExecutor } from "../engine/pool/pool.ts";

export type TabEngine = "portable" | "exact";

/** `script`: where engine-worker.ts is served. Resolves when every worker has loaded its engine. */
export function openTabExecutor(script: string, workers: number, kind: TabEngine = "portable"): Promise<Executor> {
  return openPooledExecutor(
    { kind, workers },
    {
      start(settings, { onMessage, onLost }) {
        const worker = new Worker(script, { type: "module", name: `dcnr-${kind}` });
        worker.onmessage = ({ data }: MessageEvent<FromWorker>) => onMessage(data);
        worker.onerror = ({ message }) => onLost(message || "its script cannot be loaded");
        worker.postMessage(settings);
        return {
          post: (message, moved) => worker.postMessage(message, [...moved]),
          end: async () => worker.terminate(),
        };
      },
      collectGarbage: () => {},
    },
  );
}
