// Loaded into a PNode's process by a test: on SIGUSR2 its main thread stands still for as long as DCNR_TEST_HELD_UP_MS
// says, as it does on a machine that is too busy to give it a turn.

import { isMainThread } from "node:worker_threads";

if (isMainThread)
  process.on("SIGUSR2", () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(process.env.DCNR_TEST_HELD_UP_MS));
  });
