// How long whoever calls waits in each phase of a connection's life, whatever carries it.

import type { LivenessLimits } from "./liveness.ts";

export interface ConnectionLimits extends LivenessLimits {
  /** Until the other end has accepted, names being resolved and TLS agreed upon. */
  readonly connectMs: number;
  /** From there until its HTTP/2 settings are here: something may accept that does not live. */
  readonly helloMs: number;
  /**
   * From there until a stream is taken, of which the other end may allow only so many at a time, and answered for the
   * first time, which our servers do before anything else.
   */
  readonly answerMs: number;
  /** Without streams for this long, the connection is closed: old idle ones are dead too often to be worth keeping. */
  readonly idleMs: number;
}

/** A silent peer is noticed within 9 seconds, one that cannot be connected to within 5. */
export const limitsDefault: ConnectionLimits = {
  connectMs: 5_000,
  helloMs: 5_000,
  answerMs: 8_000,
  quietMs: 2_000,
  pingMs: 5_000,
  idleMs: 15_000,
};
