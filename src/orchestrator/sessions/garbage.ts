// Which checkpoints are kept, and the deletion of the others: well after no record names them any more, and
// only if no other session does. Equal states have equal names, so two sessions may share a blob.

import type { Sha256 } from "../../core/ids.ts";
import { listItems } from "../../store/update.ts";
import type { Context } from "../context.ts";
import { type ModelRecord, prefix, type SessionRecord, type VNodeRecord } from "../records/records.ts";

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
    for await (const hash of this.#needed()) due.delete(hash);
    for (const hash of due) {
      if (this.#context.tasks.stopped) return;
      await this.#context.blobs.delete(hash);
    }
  }

  /** Named by a VNode, by a session that starts from it or serves it, or by a model. */
  async *#needed(): AsyncGenerator<Sha256> {
    const { mirror } = this.#context;
    for (const { durable } of mirror.under(prefix.vnodes)) for (const { hash } of Object.values(durable)) yield hash;
    for (const { initialStates = {}, status } of mirror.under(prefix.sessions))
      if (status !== "deleted") for (const { hash } of Object.values(initialStates)) yield hash;
    for await (const { record } of listItems<ModelRecord>(mirror.store, prefix.models))
      for (const { hash } of Object.values(record.states)) yield hash;
  }
}
