// Signatures of a key that another process holds (protocol/gate), for those who cannot wait for a promise: members sign their records
// in the middle of a step. A thread asks the gate meanwhile; this one stands still for as long as it takes, some tenths of a millisecond.

import { Worker } from "node:worker_threads";
import { fail } from "../../core/errors.ts";
import { signatureBytes } from "../../core/keys.ts";
import { moduleBeside } from "../../core/module-beside.ts";
import type { GatePlace } from "../../protocol/gate/behind.ts";

export interface SignOrder {
  readonly content: Uint8Array;
  /** [0]: 0 while it is under way, 1 when it is signed, 2 if that was refused; the signature behind it. */
  readonly state: Int32Array<SharedArrayBuffer>;
}

/** A gate that is busy for longer is gone, and this process with it. */
const patienceMs = 10_000;
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 };

export interface SignAtOnce {
  sign(content: Uint8Array): Uint8Array;
  stop(): void;
}

export function signAtOnce(gate: GatePlace): SignAtOnce {
  const thread = new Worker(moduleBeside("./sign-thread.ts", import.meta.url), {
    workerData: gate,
    resourceLimits,
  });
  thread.unref();
  // Whoever waits for it hears nothing, and says so.
  thread.on("error", () => {});
  return {
    sign: (content) => {
      const state = new Int32Array(new SharedArrayBuffer(4 + signatureBytes));
      thread.postMessage({ content, state } satisfies SignOrder);
      Atomics.wait(state, 0, 0, patienceMs);
      const outcome = Atomics.load(state, 0);
      if (outcome === 0) fail("unavailable", "the gate of this PNode does not sign: it is gone, or too busy");
      if (outcome === 2) fail("permission_denied", "the gate does not sign this");
      return Uint8Array.from(new Uint8Array(state.buffer, 4));
    },
    stop: () => void thread.terminate(),
  };
}
