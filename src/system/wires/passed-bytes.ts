// Frees what connections have read. Node reads into buffers of 64 KiB that weigh next to nothing for the garbage
// collector, so that a gigabyte that passes through leaves hundreds of megabytes behind until it runs by itself.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A collection takes some ten milliseconds, as long as it takes to copy as much. */
const worthwhileBytes = 48 << 20;

let collect: (() => void) | undefined;
let passedBytes = 0;

/** Told of bytes that passed through this thread; collects now and then. */
export function bytesPassed(bytes: number): void {
  passedBytes += bytes;
  if (passedBytes < worthwhileBytes) return;
  passedBytes = 0;
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  collect();
}
