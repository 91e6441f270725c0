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

export class Pace {
  /** Around, with one row; the least of late, since passes that wait behind others take longer. */
  #ringMs: number | undefined;
  #rowMs: number | undefined;

  /** A pass of so many tokens has come around. */
  observe(tokens: number, tookMs: number): void {
    const ringMs = this.#ringMs;
    if (tokens <= 2) {
      const isLess = ringMs === undefined || tookMs < ringMs;
      this.#ringMs = isLess ? tookMs : ringMs + (share / 4) * (tookMs - ringMs);
    } else if (ringMs !== undefined) {
      const rowMs = Math.max(0, tookMs - ringMs) / (tokens - 1);
      this.#rowMs = this.#rowMs === undefined ? rowMs : this.#rowMs + share * (rowMs - this.#rowMs);
    }
  }

  /** `stageMs`: what a pass takes of one machine. */
  inFlight(stageMs: number): number {
    if (this.#ringMs === undefined || stageMs <= 0) return 1;
    return Math.min(inFlightMax, Math.max(1, Math.round(this.#ringMs / stageMs)));
  }

  /** How many guesses bring the most tokens per time, if each is right with this chance. */
  drafts(acceptance: number, stageMs: number): number {
    const ringMs = this.#ringMs ?? 1;
    const rowMs = this.#rowMs ?? rowShare * (stageMs > 0 ? stageMs : ringMs);
    let [best, most] = [0, 1 / ringMs];
    let tokens = 1;
    for (let count = 1; count <= draftsMax; count++) {
      tokens += acceptance ** count;
      const rate = tokens / (ringMs + count * rowMs);
      if (rate > most) [best, most] = [count, rate];
    }
    return best;
  }
}
