// Ctrl-C in the middle of long work: a sentence that says how to go on, and the exit code that shells expect.

import { fail } from "../core/errors.ts";

/** Called now and then by whatever takes long. */
export function stopIfInterrupted(signal: AbortSignal, next = "nothing was registered; run it again to go on"): void {
  if (signal.aborted) fail("cancelled", `interrupted: ${next}`);
}
