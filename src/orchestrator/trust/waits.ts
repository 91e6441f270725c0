// For how long this orchestrator itself has waited for something. Machines lose their part, or their standing, for not answering in time, so nothing
// counts but time in which it was here and looked: wall clocks leap, and differ from one orchestrator to the next, and one that slept
// was not kept waiting. Whoever takes over waits from the beginning.

import type { Clock } from "../../core/world.ts";

/** More than this between two looks is the looker's own absence. */
const gapMsMost = 5_000;
/** Nobody waits any more for what nobody has looked at for so long. */
const rememberedMs = 600_000;
const rememberedLeast = 256;

interface Wait {
  readonly ms: number;
  readonly lookedMs: number;
}

export class Waits {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #waits = new Map<string, Wait>();
  #tidyAt = rememberedLeast;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** Since this was first asked, or since it began again. */
  ms(name: string): number {
    const lookedMs = this.#clock.monotonicMs();
    const known = this.#waits.get(name);
    const ms = known === undefined ? 0 : known.ms + Math.min(lookedMs - known.lookedMs, gapMsMost);
    this.#waits.set(name, { ms, lookedMs });
    if (this.#waits.size > this.#tidyAt) this.#tidy(lookedMs);
    return ms;
  }

  /** Something has come. */
  beginAgain(name: string): void {
    this.#waits.set(name, { ms: 0, lookedMs: this.#clock.monotonicMs() });
  }

  /** Nobody waits for it any more. */
  end(name: string): void {
    this.#waits.delete(name);
  }

  #tidy(nowMs: number): void {
    for (const [name, { lookedMs }] of this.#waits) if (nowMs - lookedMs > rememberedMs) this.#waits.delete(name);
    this.#tidyAt = 2 * this.#waits.size + rememberedLeast;
  }
}
