// For how long this orchestrator itself has waited for something. Machines lose their part, or their standing, for not answering in time, so nothing
// counts but time in which it was here and looked: wall clocks leap, and differ from one orchestrator to the next, and one that slept
// was not kept waiting. Whoever takes over waits from the beginning.

import type { Clock } from "../../core/world.ts";

/** More than this between two looks, at whatever, is the looker's own absence. */
const gapMsMost = 5_000;
/** Nobody waits any more for what nobody has asked about for so long. */
const rememberedMs = 3_600_000;
const rememberedLeast = 256;

interface Wait {
  readonly sinceMs: number;
  readonly askedMs: number;
}

export class Waits {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** Both in time that it was here. */
  readonly #waits = new Map<string, Wait>();
  #hereMs = 0;
  #lookedMs: number | undefined;
  #tidyAt = rememberedLeast;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** It is here. */
  look(): number {
    const nowMs = this.#clock.monotonicMs();
    this.#hereMs += Math.min(nowMs - (this.#lookedMs ?? nowMs), gapMsMost);
    this.#lookedMs = nowMs;
    return this.#hereMs;
  }

  /** Since this was first asked, or since it began again. */
  ms(name: string): number {
    const askedMs = this.look();
    const { sinceMs } = this.#waits.get(name) ?? { sinceMs: askedMs };
    this.#waits.set(name, { sinceMs, askedMs });
    if (this.#waits.size > this.#tidyAt) this.#tidy(askedMs);
    return askedMs - sinceMs;
  }

  /** Something has come. */
  beginAgain(name: string): void {
    const nowMs = this.look();
    this.#waits.set(name, { sinceMs: nowMs, askedMs: nowMs });
  }

  /** Nobody waits for it any more. */
  end(name: string): void {
    this.#waits.delete(name);
  }

  #tidy(hereMs: number): void {
    for (const [name, { askedMs }] of this.#waits) if (hereMs - askedMs > rememberedMs) this.#waits.delete(name);
    this.#tidyAt = 2 * this.#waits.size + rememberedLeast;
  }
}
