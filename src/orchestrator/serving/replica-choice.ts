// What is known of a model's replicas when one is chosen: how long their tokens take, as seen from here, and which of them have read a prompt's
// beginning already. A guess at who answers first; no bit of an answer depends on it.

import { Recent } from "../../core/caches/recent.ts";
import type { ReplicaId } from "../../core/ids.ts";

/** Beginnings are compared in whole blocks, as caches share them. */
const blockTokens = 32;
/** Blocks that are remembered, of all models together. */
const blocksMax = 16_384;
/** Replicas whose pace is remembered. */
const replicasMax = 1_024;
/** Prompt tokens that go through with one pass. */
const chunkTokens = 64;
/** Requests that a pass carries nearly as fast as one. */
const together = 8;
/** How much a new measurement counts. */
const share = 0.2;

export class ReplicaChoice {
  readonly #readers = new Recent<string, ReplicaId>(blocksMax);
  readonly #tokenMs = new Recent<ReplicaId, number>(replicasMax);

  /** A prompt went there. */
  asked(replica: ReplicaId, model: string, prompt: readonly number[]): void {
    for (const block of blocksOf(model, prompt)) this.#readers.set(block, replica);
  }

  /** So long after the one before it came a token. */
  observe(replica: ReplicaId, tokenMs: number): void {
    const before = this.#tokenMs.get(replica);
    this.#tokenMs.set(replica, before === undefined ? tokenMs : before + share * (tokenMs - before));
  }

  /** Who has read most of the prompt, and how many of its tokens; undefined if nobody that may be chosen has. */
  reader(model: string, prompt: readonly number[], among: readonly ReplicaId[]) {
    let found: { readonly replica: ReplicaId; readonly tokens: number } | undefined;
    let tokens = 0;
    for (const block of blocksOf(model, prompt)) {
      const replica = this.#readers.get(block);
      if (replica === undefined) break;
      tokens += blockTokens;
      if (among.includes(replica)) found = { replica, tokens };
    }
    return found;
  }

  /** What the first token is expected to take; one that nobody has measured is tried first. */
  expectedMs(replica: ReplicaId, requests: number, tokensToRead: number): number {
    const passes = 1 + tokensToRead / chunkTokens;
    return (this.#tokenMs.get(replica) ?? 0) * passes * (1 + requests / together);
  }
}

/** A name for each whole block together with all before it: two hashes of 32 bits, since a wrong guess costs a prefill and nothing else. */
function* blocksOf(model: string, prompt: readonly number[]): Generator<string> {
  let [a, b] = [0x811c9dc5, 0x9e3779b9];
  for (let end = blockTokens; end <= prompt.length; end += blockTokens) {
    for (let i = end - blockTokens; i < end; i++) {
      a = Math.imul(a ^ (prompt[i] as number), 0x01000193);
      b = Math.imul(b + (prompt[i] as number), 0x85ebca6b) ^ (b >>> 13);
    }
    yield `${model} ${end} ${a} ${b}`;
  }
}
