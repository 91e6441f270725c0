// Whole blobs lie in memory while they are handed to others of the crew. One that asks for hundreds and reads none would fill it: each has so
// many at once, and the next ones wait for their turn.

import { DcnrError } from "../../core/errors.ts";

/** A keeper fetches the states of many VNodes at once, part by part. */
const perPeerMax = 16;

interface Asking {
  taken: number;
  readonly waiting: (() => void)[];
}

export class HandingOver {
  readonly #peers = new Map<string, Asking>();

  /** Resolves when it is the caller's turn, with what is to be called at its end. Fails when the signal aborts before. */
  async enter(peer: string, signal: AbortSignal): Promise<() => void> {
    const asking = this.#peers.get(peer) ?? { taken: 0, waiting: [] };
    this.#peers.set(peer, asking);
    if (asking.taken < perPeerMax) asking.taken += 1;
    else await turn(asking.waiting, signal);
    return () => {
      // Whoever is next takes the place over.
      const next = asking.waiting.shift();
      if (next !== undefined) return next();
      asking.taken -= 1;
      if (asking.taken === 0) this.#peers.delete(peer);
    };
  }
}

function turn(waiting: (() => void)[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const left = () => {
      waiting.splice(waiting.indexOf(next), 1);
      reject(new DcnrError("cancelled", "the caller went away"));
    };
    const next = () => {
      signal.removeEventListener("abort", left);
      resolve();
    };
    if (signal.aborted) return reject(new DcnrError("cancelled", "the caller went away"));
    waiting.push(next);
    signal.addEventListener("abort", left, { once: true });
  });
}
