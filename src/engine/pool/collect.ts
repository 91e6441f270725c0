// Gives freed shared memory back to the operating system. The garbage collector weighs a block of shared memory as the
// few bytes of its handle, so that it would let gigabytes lie; after large blocks were freed it is told to run.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

let collect: (() => void) | undefined;

/** Runs this thread's garbage collector now. */
export function collectGarbage(): void {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  collect();
}
