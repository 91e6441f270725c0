// Looks regularly at attached PNodes that have said nothing for a while, the least recently heard first, and more often
// once somebody is in doubt. What silence means is decided elsewhere (standing-step.ts).

import type { PNodeId } from "../../../core/ids.ts";
import type { Context } from "../../context.ts";
import type { Attachment } from "./attachment.ts";
import { neverInDoubtMs } from "./standing-step.ts";

const scanMs = 500;
/** Once somebody is in doubt, so that nobody is given up late. */
const scanInDoubtMs = 100;
/** A timer that fires later than this was held up. */
const ownLateMs = 50;

export class Silence {
  readonly #context: Context;
  readonly #look: (pnode: PNodeId, stoodStillMs: number) => void;
  /** Least recently heard first. */
  readonly #bySeen = new Map<PNodeId, Attachment>();
  /** When the next scan is due. */
  #dueMs = 0;

  constructor(context: Context, look: (pnode: PNodeId, stoodStillMs: number) => void) {
    this.#context = context;
    this.#look = look;
  }

  start(): void {
    this.#scanLater(scanMs);
  }

  heard(attachment: Attachment): void {
    this.#bySeen.delete(attachment.pnode);
    this.#bySeen.set(attachment.pnode, attachment);
  }

  forget(pnode: PNodeId): void {
    this.#bySeen.delete(pnode);
  }

  clear(): void {
    this.#bySeen.clear();
  }

  #scanLater(delayMs: number): void {
    this.#dueMs = this.#context.world.clock.monotonicMs() + delayMs;
    this.#context.tasks.after(delayMs, () => this.#scanLater(this.#scan() ? scanInDoubtMs : scanMs));
  }

  /** True if somebody is in doubt. */
  #scan(): boolean {
    const nowMs = this.#context.world.clock.monotonicMs();
    const lateMs = nowMs - this.#dueMs;
    // This process stood still itself, which excuses everybody.
    const stoodStillMs = lateMs > ownLateMs ? lateMs : 0;
    const enoughMs = neverInDoubtMs(this.#context.timings);
    let doubts = false;
    for (const [pnode, attachment] of this.#bySeen) {
      // Those that follow were heard later.
      if (stoodStillMs === 0 && nowMs - attachment.standing.lastSeenMs < enoughMs) break;
      this.#look(pnode, stoodStillMs);
      const { phase, inDoubt } = attachment.standing;
      // Its fate hangs on timers and on the store now.
      if (phase.kind === "suspect" || phase.kind === "lost") this.#bySeen.delete(pnode);
      else if (inDoubt) doubts = true;
    }
    return doubts;
  }
}
