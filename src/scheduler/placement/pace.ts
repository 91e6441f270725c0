// How long a search goes on at a stretch. Placing thousands of VNodes takes hundreds of milliseconds, and whoever places them has
// heartbeats to answer: a search counts what it looks at, and pauses when it has looked at enough. It counts looks and asks no
// clock, so it is as deterministic as the rest.

/** A search that pauses by `yield` and ends with its result. */
export type Search<T> = Generator<void, T, void>;

/** One look is a PNode considered for a VNode: some ten nanoseconds, more on a busy machine. Together that is a few milliseconds. */
const looksAtAStretch = 200_000;

export class Pace {
  readonly #stretch: number;
  #left: number;

  constructor(looks = looksAtAStretch) {
    this.#stretch = looks;
    this.#left = looks;
  }

  /** True when it is time to pause; what was counted is then forgotten. */
  isSpent(looks: number): boolean {
    this.#left -= looks;
    if (this.#left > 0) return false;
    this.#left = this.#stretch;
    return true;
  }
}

/** For those who want the result at once. */
export function unhurried(): Pace {
  return new Pace(Number.POSITIVE_INFINITY);
}

/** Runs a search to its end without a pause. */
export function atOnce<T>(search: Search<T>): T {
  for (;;) {
    const { done, value } = search.next();
    if (done) return value;
  }
}

/** Runs a search, and lets others have a turn whenever it pauses. */
export async function inTurns<T>(search: Search<T>, turn: () => Promise<void>): Promise<T> {
  for (;;) {
    const { done, value } = search.next();
    if (done) return value;
    await turn();
  }
}
