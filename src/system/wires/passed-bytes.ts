// Frees what connections have read. Node reads into buffers of 64 KiB that weigh next to nothing for the garbage
// collector, so that a gigabyte that passes through leaves hundreds of megabytes behind until it runs by itself.

import { collectAll, collectYoung } from "../machine/garbage.ts";

/** Buffers that were just read are young: so few of them that the C library's heap never grows by more. */
const youngBytes = 8 << 20;
/** Some outlive that: a whole collection takes some ten milliseconds, as long as it takes to copy as much. */
const youngMax = 12;

let passedBytes = 0;
let young = 0;

/** Told of bytes that passed through this thread; collects now and then. */
export function bytesPassed(bytes: number): void {
  passedBytes += bytes;
  if (passedBytes < youngBytes) return;
  passedBytes = 0;
  if (++young < youngMax) collectYoung();
  else {
    young = 0;
    collectAll();
  }
}
