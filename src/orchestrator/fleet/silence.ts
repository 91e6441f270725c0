// Notices attached PNodes that have fallen silent: first in doubt, so that others may prepare, then given up.

import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment } from "./attachment.ts";

export interface SilenceHooks {
  onDoubt(pnode: PNodeId): void;
  onSilent(attachment: Attachment, reason: string): void;
}

const scanMs = 500;
/** Once somebody is in doubt, so that nobody is given up late. */
const scanInDoubtMs = 100;
/** Of the silence after which a PNode is lost: two heartbeats in a row are missing. */
const doubtShare = 0.7;
/** A timer that fires later than this was held up. */
const ownLateMs = 50;

export class Silence {
  readonly #context: Context;
  readonly #hooks: SilenceHooks;
  /** Least recently heard first. */
  readonly #bySeen = new Map<PNodeId, Attachment>();
  /** When the next scan is due. */
  #dueMs = 0;

  constructor(context: Context, hooks: SilenceHooks) {
    this.#context = context;
    this.#hooks = hooks;
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
    const { world, timings } = this.#context;
    const nowMs = world.clock.monotonicMs();
    // This process stood still itself: what came meanwhile is still to be read, so nobody was silent for that time.
    const lateMs = nowMs - this.#dueMs;
    if (lateMs > ownLateMs)
      for (const one of this.#bySeen.values()) one.lastSeenMs = Math.min(nowMs, one.lastSeenMs + lateMs);
    let doubts = false;
    for (const attachment of this.#bySeen.values()) {
      const silentMs = nowMs - attachment.lastSeenMs;
      // Nobody's limit is lower, and those that follow were heard later.
      if (silentMs < doubtShare * timings.silentMs) break;
      const { limitMs } = attachment.patience;
      if (silentMs < doubtShare * limitMs) continue;
      doubts = true;
      if (!attachment.inDoubt) {
        attachment.inDoubt = true;
        this.#hooks.onDoubt(attachment.pnode);
      }
      if (silentMs < limitMs) continue;
      this.#bySeen.delete(attachment.pnode);
      if (attachment.status !== "suspect")
        this.#hooks.onSilent(attachment, `silent for ${(silentMs / 1000).toFixed(1)} s`);
    }
    return doubts;
  }
}
