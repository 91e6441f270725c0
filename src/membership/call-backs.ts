// Whether others can call this member: some of those whom it calls try. Whoever nobody could call tells no routes, and is
// watched by its own calls instead of being suspected for ever.

/** When it is asked again: seldom by one that was reached, often by one that was not. */
const reachedMs = 600_000;
const unreachedMs = 45_000;

/** A single failure may be the line of the one who tried. */
const failuresLeast = 2;

export class CallBacks {
  #failures = 0;
  #dueMs = 0;
  #isCallable = true;

  get isCallable(): boolean {
    return this.#isCallable;
  }

  isDue(nowMs: number): boolean {
    return nowMs >= this.#dueMs;
  }

  /** True if what is told of this member changes by it. `others`: how many there are to try. */
  answered(reached: boolean, nowMs: number, others: number): boolean {
    this.#failures = reached ? 0 : this.#failures + 1;
    this.#dueMs = reached ? nowMs + reachedMs : this.#isCallable ? 0 : nowMs + unreachedMs;
    const isCallable = this.#failures < Math.min(failuresLeast, Math.max(1, others));
    const isChanged = isCallable !== this.#isCallable;
    this.#isCallable = isCallable;
    return isChanged;
  }
}
