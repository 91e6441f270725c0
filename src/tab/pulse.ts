// Starts the worker that tells an orchestrator that this page lives (pulse-worker.ts), and shares two numbers with it: when the
// PNode's worker last came round, and when the orchestrator last answered.

import type { Pulse } from "../pnode/options.ts";
import { sharedMs, tabClock } from "./world.ts";

export interface PulseOrder {
  readonly orchestrator: string;
  readonly token: string;
  readonly intervalMs: number;
  readonly secure: boolean;
  /** Of `sharedMs`: [0] of the PNode's last turn, [1] of the orchestrator's last answer. */
  readonly times: Float64Array<SharedArrayBuffer>;
}

/** How often the PNode's worker shows that it comes round. */
export const turnMs = 250;

/** `script`: where pulse-worker.ts is served. */
export function startTabPulse(script: string, secure: boolean): Pulse {
  const times = new Float64Array(new SharedArrayBuffer(16));
  times[0] = sharedMs();
  const turning = setInterval(() => {
    times[0] = sharedMs();
  }, turnMs);
  let worker: Worker | undefined;
  return {
    follow(orchestrator, token, intervalMs) {
      if (worker === undefined) {
        worker = new Worker(script, { type: "module", name: "dcnr-pulse" });
        // Without a pulse the PNode is judged by its heartbeats alone.
        worker.onerror = () => {
          worker = undefined;
        };
      }
      worker.postMessage({ orchestrator, token, intervalMs, secure, times } satisfies PulseOrder);
    },
    get heardMs() {
      const answered = times[1] as number;
      return answered === 0 ? 0 : tabClock.monotonicMs() - (sharedMs() - answered);
    },
    stop() {
      clearInterval(turning);
      worker?.terminate();
    },
  };
}
