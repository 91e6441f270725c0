// Keeps a process to a share of the processor, for an owner who lends half a core: after each call workers rest until what
// the whole process has used is within the share again. Nothing is held while they rest, and no result depends on it.

import { type Clock, sleep, type Timers } from "../../core/world.ts";

export interface Pace {
  /** Undefined if work may begin now; else resolves when it is time to ask again. */
  rest(): Promise<void> | undefined;
}

export interface PaceOptions {
  /** Of the processor, in cores. */
  readonly cpus: number;
  /** CPU time that the process has used, of all its threads. */
  readonly usedMs: () => number;
  readonly clock: Clock;
  readonly timers: Timers;
}

/** What may be saved up while there is nothing to do: short calls need not rest after each. */
const savedMsMax = 50;
/** Loading and compiling take seconds that belong to no call; nobody rests for longer because of them. */
const owedMsMax = 4_000;

export class SharePace implements Pace {
  readonly #options: PaceOptions;
  #atMs: number;
  #usedMs: number;
  /** CPU time that it may use now; below 0 it owes some. */
  #balanceMs = savedMsMax;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#atMs = options.clock.monotonicMs();
    this.#usedMs = options.usedMs();
  }

  rest(): Promise<void> | undefined {
    const { cpus, clock, timers, usedMs } = this.#options;
    const nowMs = clock.monotonicMs();
    const used = usedMs();
    const grownMs = this.#balanceMs + (nowMs - this.#atMs) * cpus - (used - this.#usedMs);
    this.#balanceMs = Math.max(-owedMsMax, Math.min(savedMsMax, grownMs));
    this.#atMs = nowMs;
    this.#usedMs = used;
    return this.#balanceMs >= 0 ? undefined : sleep(timers, Math.ceil(-this.#balanceMs / cpus));
  }
}
