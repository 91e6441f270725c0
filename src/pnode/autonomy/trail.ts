// The hashes of a VNode's steps that no store knows yet. They go with its state from keeper to keeper, so that whoever
// brings the state to an orchestrator in the end can account for every step on the way.

import { bytesOfHex, hexOf, joinBytes } from "../../core/bytes.ts";
import { fail } from "../../core/errors.ts";
import type { StepHash } from "../checkpoints.ts";

const hashBytes = 32;
/** What one record of the store takes with some room; of a longer time alone the oldest step roots stay unknown. */
export const trailStepsMax = 2_000;

/** Of consecutive steps, the newest last; those before a gap are left out. */
export function trailOf(hashes: readonly StepHash[]): Uint8Array {
  let first = hashes.length;
  while (first > 0 && (first === hashes.length || hashes[first - 1]?.step === (hashes[first]?.step ?? 0) - 1))
    first -= 1;
  const told = hashes.slice(Math.max(first, hashes.length - trailStepsMax));
  return joinBytes(told.map(({ hash }) => bytesOfHex(hash)));
}

/** `step`: the last one of the trail. */
export function readTrail(bytes: Uint8Array, step: number): StepHash[] {
  const count = bytes.byteLength / hashBytes;
  if (!Number.isInteger(count) || count > trailStepsMax || count > step)
    fail("data_loss", `${bytes.byteLength} bytes are no hashes of steps up to ${step}`);
  return Array.from({ length: count }, (_, index) => ({
    step: step - count + 1 + index,
    hash: hexOf(bytes.subarray(index * hashBytes, (index + 1) * hashBytes)),
  }));
}

export const trailBytesMax = trailStepsMax * hashBytes;
