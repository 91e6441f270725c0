// The one loop that tries again. Whether that is worth it the error says itself (errors.ts); how often, where and after
// which wait is decided here.

import { DcnrError, outlookOf } from "./errors.ts";
import { type Chance, sleep, type World } from "./world.ts";

/** Waiting times between attempts: doubling, bounded, with jitter so that a thousand PNodes do not knock at once. */
export class Backoff {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #chance: Chance;
  #nextMs: number;

  constructor(minMs: number, maxMs: number, chance: Chance) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#chance = chance;
    this.#nextMs = minMs;
  }

  /** Between half and all of the present step; the step doubles. */
  next(): number {
    const delayMs = this.#nextMs * (0.5 + 0.5 * this.#chance.uniform());
    this.#nextMs = Math.min(this.#nextMs * 2, this.#maxMs);
    return delayMs;
  }

  reset(): void {
    this.#nextMs = this.#minMs;
  }
}

export interface RetryOptions {
  readonly world: Pick<World, "clock" | "timers" | "chance">;
  readonly minMs: number;
  readonly maxMs: number;
  /** No further attempt begins after this; without it only the error and the signal end the loop. */
  readonly patienceMs?: number;
  readonly attemptsMax?: number;
  /** How many places can be asked; whoever attempts goes to another one after each failure. */
  readonly places?: () => number;
  /** How often all places may say in turn that somebody else should be asked, before they are believed. */
  readonly rounds?: number;
  readonly signal?: AbortSignal;
}

/** Several turns, since a place may recover from its bug; few, since it hardly does. */
const roundsDefault = 6;

/** The attempts at one thing: `again` after each that failed. */
export class Retries {
  readonly #options: RetryOptions;
  readonly #backoff: Backoff;
  #untilMs: number;
  #attempts = 0;
  /** Failures since somebody last said that it will pass. */
  #refusals = 0;

  constructor(options: RetryOptions) {
    this.#options = options;
    this.#backoff = new Backoff(options.minMs, options.maxMs, options.world.chance);
    this.#untilMs = this.#patienceEndsMs();
  }

  /** It went well for a while: whatever fails next is another matter. */
  progressed(): void {
    this.#backoff.reset();
    this.#untilMs = this.#patienceEndsMs();
    this.#attempts = 0;
    this.#refusals = 0;
  }

  /** Returns when it is time for another attempt; throws the failure if none is worth it. */
  async again(thrown: unknown): Promise<void> {
    const { attemptsMax = Number.POSITIVE_INFINITY, signal, world } = this.#options;
    const isLate = world.clock.monotonicMs() >= this.#untilMs;
    if (signal?.aborted || isLate || ++this.#attempts >= attemptsMax || !this.#isWorthIt(thrown)) throw thrown;
    // Somebody else is asked at once; a wait is due when all have been asked.
    if (this.#refusals % this.#places() !== 0) return;
    await sleep(world.timers, this.#backoff.next(), signal);
    if (signal?.aborted) throw new DcnrError("cancelled", "whoever tried this stops");
  }

  #isWorthIt(thrown: unknown): boolean {
    const outlook = outlookOf(thrown);
    switch (outlook) {
      case "final":
        return false;
      case "elsewhere":
        return ++this.#refusals < this.#places() * (this.#options.rounds ?? roundsDefault);
      case "passing":
        this.#refusals = 0;
        return true;
    }
  }

  #places(): number {
    return Math.max(1, this.#options.places?.() ?? 1);
  }

  #patienceEndsMs(): number {
    const { world, patienceMs = Number.POSITIVE_INFINITY } = this.#options;
    return world.clock.monotonicMs() + patienceMs;
  }
}

/** `failed` hears of each failure that is followed by another attempt. */
export async function retry<T>(
  options: RetryOptions,
  attempt: () => Promise<T>,
  failed: (thrown: unknown) => void = () => {},
): Promise<T> {
  const retries = new Retries(options);
  for (;;) {
    try {
      return await attempt();
    } catch (thrown) {
      await retries.again(thrown);
      failed(thrown);
    }
  }
}
