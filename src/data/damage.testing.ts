// Spoils bytes by a seed, for tests of what reads files from anywhere: cut off, or some bytes changed.

import assert from "node:assert/strict";
import { DcnrError } from "../core/errors.ts";

/** Numbers from 0 to 1 that only the seed decides. */
function drawn(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function* damagedCopies(whole: Uint8Array, count: number, seed: number): Generator<Uint8Array> {
  const random = drawn(seed);
  for (let i = 0; i < count; i++) {
    if (i % 8 === 0) {
      yield whole.slice(0, Math.floor(random() * whole.length));
      continue;
    }
    // Not whole.slice(): of a Buffer that would be the same memory.
    const bytes = new Uint8Array(whole);
    for (let k = 0; k <= i % 4; k++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
    yield bytes;
  }
}

/** A refusal must be one of ours, in words. */
export function assertRefusal(thrown: unknown, what: string): void {
  assert.ok(thrown instanceof DcnrError, `${what}: ${(thrown as Error).stack}`);
  assert.doesNotMatch(thrown.message, /undefined|NaN/);
}
