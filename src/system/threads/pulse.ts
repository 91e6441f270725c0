// Starts the thread that tells an orchestrator that this process lives (pulse-thread.ts), and shares two numbers with it:
// when the main thread last came round, and when the orchestrator last answered.

import { Worker } from "node:worker_threads";
import { moduleBeside } from "../../core/module-beside.ts";
import type { Clock } from "../../core/world.ts";
import type { GatePlace } from "../../protocol/gate/behind.ts";
import type { Reach } from "../../protocol/routes/reach.ts";

export interface PulseOrder {
  readonly orchestrator: string;
  readonly token: string;
  readonly intervalMs: number;
  /** The private networks that are open to it; absent: everything is. */
  readonly networks?: readonly string[];
  /** Over WebSockets alone. */
  readonly web?: boolean;
  /** By which it connects; absent: by itself. */
  readonly gate?: GatePlace;
}

export interface PulseShared {
  /** Milliseconds of `hrtimeMs`, [0] of the main thread's last turn, [1] of the orchestrator's last answer. */
  readonly times: Float64Array<SharedArrayBuffer>;
}

/** The same clock in all threads of a process; `performance.now` starts anew in each. */
export function hrtimeMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** How often the main thread shows that it comes round. */
export const turnMs = 250;

/** Little is needed, and a PNode that waits for work should stay small. */
const resourceLimits = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 };

export interface RealPulse {
  follow(orchestrator: string, token: string, intervalMs: number): void;
  readonly heardMs: number;
  stop(): void;
}

export function startPulse(clock: Clock, reach?: Reach, web = false, gate?: GatePlace): RealPulse {
  const times = new Float64Array(new SharedArrayBuffer(16));
  times[0] = hrtimeMs();
  const turning = setInterval(() => {
    times[0] = hrtimeMs();
  }, turnMs);
  turning.unref();
  let thread: Worker | undefined;
  return {
    follow(orchestrator, token, intervalMs) {
      if (thread === undefined) {
        thread = new Worker(moduleBeside("./pulse-thread.ts", import.meta.url), {
          workerData: { times } satisfies PulseShared,
          resourceLimits,
        });
        thread.unref();
        // Without a pulse the PNode is judged by its heartbeats alone, as it was before there were any.
        thread.on("error", () => {
          thread = undefined;
        });
      }
      const open = { ...(reach && { networks: reach.networks }), ...(gate && { gate }) };
      thread.postMessage({ orchestrator, token, intervalMs, web, ...open } satisfies PulseOrder);
    },
    get heardMs() {
      const answered = times[1] as number;
      return answered === 0 ? 0 : clock.monotonicMs() - (hrtimeMs() - answered);
    },
    stop() {
      clearInterval(turning);
      void thread?.terminate();
    },
  };
}
