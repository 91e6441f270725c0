// How long passes take, measured where they are sent from: what a pass takes on its way around, and what one more row costs.
// From it follow how many passes are worth having under way, and how many guessed tokens are worth a row each. No bit of an
// answer depends on any of it.

/** How much a new measurement counts. */
const share = 0.2;
/** Until more is known, a row more costs so much of what a pass takes where it is computed. */
const rowShare = 0.1;
const inFlightMax = 8;
/** Guessed tokens of one row. */
export const draftsMax = 8;
/** After so many passes behind others one is sent alone: what waits tells nothing of the way. It costs the time of one pass. */
const togetherMax = 256;

/** A pass of so many tokens reads a prompt, and says little of how long the next tokens take. */
const promptTokens = 64;

/** What is worth guessing. */
export interface GuessPlan {
  readonly count: number;
  /** Tokens for each millisecond that are expected of it. */
  readonly rate: number;
}

export class Pace {
  /** Around, with so many rows; the fewest that were seen alone. */
  #ring: { readonly ms: number; readonly tokens: number } | undefined;
  #rowMs: number | undefined;
  #tokens = 1;
  #together = togetherMax;

  /** The next pass should have the way to itself. */
  get wantsAlone(): boolean {
    return this.#together >= togetherMax;
  }

  /** A pass of so many tokens has come around. `isAlone`: no other was under way when it was sent, and it has next tokens only. */
  observe(tokens: number, tookMs: number, isAlone: boolean): void {
    this.#together = isAlone ? 0 : this.#together + 1;
    this.#tokens = tokens;
    const ring = this.#ring;
    if (ring === undefined || (tokens <= ring.tokens && tookMs < ring.ms)) this.#ring = { ms: tookMs, tokens };
    else if (isAlone && tokens <= ring.tokens) this.#ring = { ms: ring.ms + share * (tookMs - ring.ms), tokens };
    if (ring !== undefined && isAlone) this.#compare(ring, { ms: tookMs, tokens });
  }

  /** Two passes with other numbers of rows tell what a row more takes. */
  #compare(a: { readonly ms: number; readonly tokens: number }, b: typeof a): void {
    if (a.tokens === b.tokens) return;
    const rowMs = Math.max(0, (a.ms - b.ms) / (a.tokens - b.tokens));
    this.#rowMs = this.#rowMs === undefined ? rowMs : this.#rowMs + share * (rowMs - this.#rowMs);
  }

  /** `stageMs`: what the last pass took of one machine. */
  inFlight(stageMs: number): number {
    if (this.#ring === undefined || stageMs <= 0) return 1;
    const { ms, tokens } = this.#ring;
    const aroundMs = ms + Math.max(0, this.#tokens - tokens) * (this.#rowMs ?? 0);
    return Math.min(inFlightMax, Math.max(1, Math.round(aroundMs / stageMs)));
  }

  /**
   * How many guesses bring the most tokens per time, if each is right with this chance, `together` requests of a pass guess as many, and
   * finding one takes `guessMs` of the head's machine before the pass can be sent. Where so many passes are under way that the machine is busy all the
   * time, that is what counts, and not the way.
   */
  guesses(acceptance: number, stageMs: number, together = 1, guessMs = 0, passes = 1): GuessPlan {
    const ringMs = this.#ring?.ms ?? 1;
    // What costs the machine something waits until more than prompts has come around.
    if (guessMs > 0 && (this.#ring?.tokens ?? promptTokens) >= promptTokens) return { count: 0, rate: 1 / ringMs };
    const rowMs = this.#rowMs ?? rowShare * (stageMs > 0 ? stageMs : ringMs);
    const roundMs = (count: number) => {
      const moreMs = count * (rowMs * together + guessMs);
      return guessMs === 0 ? ringMs + moreMs : Math.max(ringMs + moreMs, passes * (stageMs + moreMs));
    };
    let best: GuessPlan = { count: 0, rate: 1 / roundMs(0) };
    let tokens = 1;
    for (let count = 1; count <= draftsMax; count++) {
      tokens += acceptance ** count;
      const rate = tokens / roundMs(count);
      if (rate > best.rate) best = { count, rate };
    }
    return best;
  }
}
