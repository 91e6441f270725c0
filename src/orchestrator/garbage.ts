// Which checkpoints are kept, and the deletion of the others: well after no record names them any more, and
// only if no other session does. Equal states have equal names, so two sessions may share a blob.

import type { Sha256 } from "../core/ids.ts";
import type { Context } from "./context.ts";
import type { SessionRecord, VNodeRecord } from "./records.ts";

/** The line, the one before it in case a blob is damaged, the best, and everything newer than the line. */
export function isKept(session: Pick<SessionRecord, "line" | "lineBefore" | "best" | "status">, step: number): boolean {
  if (step >= session.line || step === session.best?.step) return true;
  return session.status !== "done" && step >= session.lineBefore;
}

export function trimmed(
  session: Pick<SessionRecord, "line" | "lineBefore" | "best" | "status">,
  durable: VNodeRecord["durable"],
): { kept: VNodeRecord["durable"]; dropped: Sha256[] } {
  const kept: Record<string, VNodeRecord["durable"][string]> = {};
  const dropped: Sha256[] = [];
  for (const [step, state] of Object.entries(durable)) {
    if (isKept(session, Number(step))) kept[step] = state;
    else dropped.push(state.hash);
  }
  return { kept, dropped };
}

export class Garbage {
  readonly #context: Context;
  #waiting = new Set<Sha256>();

  constructor(context: Context) {
    this.#context = context;
    context.tasks.every("deleting old checkpoints", context.timings.garbageDelayMs, () => this.#sweep());
  }

  #next = new Set<Sha256>();

  add(hashes: readonly Sha256[]): void {
    for (const hash of hashes) this.#next.add(hash);
  }

  /** What was dropped before the last sweep has waited at least one interval. */
  async #sweep(): Promise<void> {
    const due = this.#waiting;
    this.#waiting = this.#next;
    this.#next = new Set();
    if (due.size === 0) return;
    for (const record of this.#context.mirror.under<VNodeRecord>("vnode/"))
      for (const state of Object.values(record.durable)) due.delete(state.hash);
    for (const hash of due) {
      if (this.#context.tasks.stopped) return;
      await this.#context.blobs.delete(hash);
    }
  }
}
