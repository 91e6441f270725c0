// Replicas of served models that no model names: whoever made one died before it could say so, and it would hold its room
// for ever. Any orchestrator ends them, once they have been nameless for longer than anybody takes to name one.

import type { ReplicaId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { ReplicaRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { endReplica } from "./end-replica.ts";

/** To place and name a replica takes some writes to the store; a store that is away for a while delays them. */
const namelessMsMax = 120_000;

export class UnnamedReplicas {
  readonly #context: Context;
  readonly #touch: (replica: ReplicaId) => void;
  /** Since when this orchestrator has known each of them without a name. */
  readonly #sinceMs = new Map<ReplicaId, number>();

  /** `touch` looks after a replica that has changed. */
  constructor(context: Context, touch: (replica: ReplicaId) => void) {
    this.#context = context;
    this.#touch = touch;
  }

  async sweep(): Promise<void> {
    const { mirror, world, events } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const nameless = new Set<ReplicaId>();
    for (const replica of mirror.under(prefix.replicas)) {
      if (replica.status === "deleted" || (await this.#isNamed(replica))) continue;
      nameless.add(replica.id);
      const sinceMs = this.#sinceMs.get(replica.id) ?? nowMs;
      this.#sinceMs.set(replica.id, sinceMs);
      if (nowMs - sinceMs < namelessMsMax) continue;
      if (!(await endReplica(mirror, replica.id))) continue;
      events.emit("warn", "model.swept", `replica ${replica.id} belongs to no model any more: it is ended`, {
        session: replica.id,
      });
      this.#touch(replica.id);
    }
    for (const known of this.#sinceMs.keys()) if (!nameless.has(known)) this.#sinceMs.delete(known);
  }

  async #isNamed({ id, model: name }: ReplicaRecord): Promise<boolean> {
    const model = await this.#context.mirror.read(key.model(name));
    return model !== undefined && (model.replicas.includes(id) || (model.ending ?? []).some((one) => one.id === id));
  }
}
