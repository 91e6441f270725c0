// How long one who should speak regularly may be silent before it is taken for gone. It is learned from how late the
// same one was before: whoever is always on time is missed soon, whoever works on a busy machine is waited for.

/** Nobody is waited for longer than this, whatever the record says. */
export const patienceMsMax = 60_000;

/** A further delay may be some times as long as the longest of late. */
const factor = 3;
/** With each sign of life; at one a second half of a delay is forgotten after 35 s. */
const forgetting = 0.98;

export class Patience {
  readonly #leastMs: number;
  /** The longest delay of late. */
  readonly #lateMs: number;

  /** `startMs` is the limit that an earlier record suggests. */
  constructor(leastMs: number, startMs = leastMs) {
    this.#leastMs = leastMs;
    this.#lateMs = Math.max(0, startMs - leastMs) / factor;
  }

  /** After a sign of life that came this long after it was due; early ones count as on time. */
  heard(lateMs: number): Patience {
    const longestMs = Math.max(lateMs, this.#lateMs * forgetting, 0);
    return longestMs === this.#lateMs ? this : new Patience(this.#leastMs, this.#leastMs + factor * longestMs);
  }

  /** Silence up to here is not yet taken for death. */
  get limitMs(): number {
    // What the least alone demands is never shortened: tests and operators may set it above the most.
    return Math.max(this.#leastMs, Math.min(patienceMsMax, this.#leastMs + factor * this.#lateMs));
  }
}
