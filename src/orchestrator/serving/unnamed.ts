// Replicas of served models that no model names: whoever made one died before it could say so, and it would hold its room
// for ever. Any orchestrator ends them, once they have been nameless for longer than anybody takes to name one.

import type { SessionId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { isLive } from "../fleet/assignments.ts";
import { key, prefix, type SessionRecord } from "../records/records.ts";

/** To place and name a replica takes some writes to the store; a store that is away for a while delays them. */
const namelessMsMax = 120_000;

export class UnnamedReplicas {
  readonly #context: Context;
  readonly #touch: (session: SessionId) => void;
  /** Since when this orchestrator has known each of them without a name. */
  readonly #sinceMs = new Map<SessionId, number>();

  /** `touch` looks after a session that has changed. */
  constructor(context: Context, touch: (session: SessionId) => void) {
    this.#context = context;
    this.#touch = touch;
  }

  async sweep(): Promise<void> {
    const { mirror, world, events } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const nameless = new Set<SessionId>();
    for (const session of mirror.under(prefix.sessions)) {
      if (!isLive(session) || (await this.#isNamed(session))) continue;
      nameless.add(session.id);
      const sinceMs = this.#sinceMs.get(session.id) ?? nowMs;
      this.#sinceMs.set(session.id, sinceMs);
      if (nowMs - sinceMs < namelessMsMax) continue;
      const { written } = await mirror.update(key.session(session.id), (current) =>
        current && isLive(current) ? { ...current, status: "deleted" as const, reason: "" } : undefined,
      );
      if (!written) continue;
      events.emit("warn", "model.swept", `replica ${session.id} belongs to no model any more: it is ended`, {
        session: session.id,
      });
      this.#touch(session.id);
    }
    for (const known of this.#sinceMs.keys()) if (!nameless.has(known)) this.#sinceMs.delete(known);
  }

  async #isNamed({ id, serving }: SessionRecord): Promise<boolean> {
    if (serving === undefined) return true;
    const model = await this.#context.mirror.read(key.model(serving.model));
    return model?.sessions.includes(id) ?? false;
  }
}
