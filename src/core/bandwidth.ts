// Keeps what is sent below a limit: a bucket that fills at the allowed rate.

import { sleep, type World } from "./world.ts";

/** What may go at once after a pause, in seconds of the allowed rate. */
const burstSeconds = 0.25;

export class Bandwidth {
  readonly #world: World;
  /** 0: no limit. */
  readonly #bytesPerSecond: number;
  /** When the bucket is free again. */
  #freeAtMs = 0;

  constructor(world: World, bytesPerSecond: number) {
    this.#world = world;
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Gives how long it had to wait. */
  async take(bytes: number, signal: AbortSignal): Promise<number> {
    if (this.#bytesPerSecond <= 0) return 0;
    const nowMs = this.#world.clock.monotonicMs();
    const costMs = (bytes / this.#bytesPerSecond) * 1_000;
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs - burstSeconds * 1_000) + costMs;
    const waitMs = this.#freeAtMs - nowMs;
    if (waitMs <= 0) return 0;
    await sleep(this.#world.timers, waitMs, signal);
    return waitMs;
  }
}
