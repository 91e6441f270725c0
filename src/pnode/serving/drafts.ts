// Guesses at what an answer says next, from the text itself: where its last words stood before, what followed them there.
// A guess is right if the sampler chooses it from the logits, so that guessing changes how fast answers come and nothing else.

/** Longer endings are looked for first: what follows them is likelier right. */
const endings = [4, 3, 2] as const;

/** Up to `count` tokens that may follow. */
export function draftFrom(tokens: readonly number[], count: number): number[] {
  if (count < 1) return [];
  for (const length of endings) {
    const end = tokens.length - length;
    for (let start = end - 1; start >= 0; start--) {
      let same = 0;
      while (same < length && tokens[start + same] === tokens[end + same]) same++;
      if (same === length) return continued(tokens, start + length, count);
    }
  }
  return [];
}

/** From there on; what repeats itself goes on repeating. */
function continued(tokens: readonly number[], from: number, count: number): number[] {
  const found: number[] = [];
  for (let at = from; found.length < count; at++)
    found.push((at < tokens.length ? tokens[at] : found[at - tokens.length]) as number);
  return found;
}

/** Before anything is known of an answer. */
export const hopeful = 0.7;
const share = 0.3;
/** One that guessed in vain tries again after so many tokens. */
const retryTokens = 16;

/** How often the guesses of one answer were right of late. */
export class Acceptance {
  #rate: number;
  #since = 0;

  /** `expected`: what is known of other answers. */
  constructor(expected = hopeful) {
    this.#rate = expected;
  }

  observe(drafted: number, accepted: number): void {
    this.#since = 0;
    // What comes after a wrong guess was not judged.
    const judged = Math.min(drafted, accepted + 1);
    this.#rate += share * (accepted / judged - this.#rate);
  }

  /** Called for each token without a guess. */
  get rate(): number {
    return ++this.#since > retryTokens ? Math.max(this.#rate, hopeful / 2) : this.#rate;
  }
}
