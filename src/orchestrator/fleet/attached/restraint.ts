// Some words of a PNode cost the store a write, the fleet a look, or people an event. Whoever says them faster than a machine's life changes is
// read more slowly: flow control holds the sender back, nothing is lost, and its heartbeats wait behind its own words.

import { sleep, type World } from "../../../core/world.ts";
import type { AttachRequest } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";

type Word = AttachRequest["event"]["case"];

const costly: ReadonlySet<Word> = new Set<Word>(["moved", "measurement", "evidence"]);
/** A machine that starts says several at once: what it measured, and where relays have it wait. */
const freeWords = 20;
const wordMs = 1_000;

/** Of one stream. */
export class Restraint {
  readonly #world: Pick<World, "clock" | "timers">;
  #left = freeWords;
  #atMs: number;

  constructor(world: Pick<World, "clock" | "timers">) {
    this.#world = world;
    this.#atMs = world.clock.monotonicMs();
  }

  /** Undefined if the word may be heard at once; else resolves when it may. */
  before(word: Word): Promise<void> | undefined {
    if (!costly.has(word)) return undefined;
    const { clock, timers } = this.#world;
    const nowMs = clock.monotonicMs();
    this.#left = Math.min(freeWords, this.#left + (nowMs - this.#atMs) / wordMs) - 1;
    this.#atMs = nowMs;
    return this.#left >= 0 ? undefined : sleep(timers, Math.ceil(-this.#left * wordMs));
  }
}
