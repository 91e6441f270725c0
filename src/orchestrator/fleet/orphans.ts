// PNodes whose orchestrator died. They attach elsewhere within a moment; those that do not are lost as well.

import type { Context } from "../context.ts";
import { key, type PNodeRecord, prefix } from "../records/records.ts";
import { forEachAtOnce } from "../tasks.ts";
import type { Presence } from "./presence.ts";
import { afterFailure } from "./reliability.ts";

const checksLeast = 2;
/** While there are any; otherwise it looks whenever the other orchestrators were looked at. */
const recheckMs = 250;

export interface OrphanHooks {
  onFound(pnode: PNodeRecord): void;
  onLost(pnode: PNodeRecord): void;
}

export class Orphans {
  readonly #context: Context;
  readonly #presence: Presence;
  readonly #hooks: OrphanHooks;
  #checking = false;
  #rechecks = false;
  /** When this orchestrator first saw each attachment without a living orchestrator. */
  readonly #since = new Map<string, { readonly ms: number; checks: number }>();

  constructor(context: Context, presence: Presence, hooks: OrphanHooks) {
    this.#context = context;
    this.#presence = presence;
    this.#hooks = hooks;
  }

  /** Notes new orphans, declares old ones lost, and looks again soon while there are some. */
  async check(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      await this.#look();
    } finally {
      this.#checking = false;
      this.#recheck();
    }
  }

  #recheck(): void {
    if (this.#rechecks || this.#since.size === 0) return;
    this.#rechecks = true;
    const { tasks } = this.#context;
    tasks.after(recheckMs, () => {
      this.#rechecks = false;
      tasks.run("the search for orphans", () => this.check());
    });
  }

  async #look(): Promise<void> {
    const { mirror, world, timings } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const due: PNodeRecord[] = [];
    const present = new Set<string>();
    for (const pnode of mirror.under(prefix.pnodes)) {
      if (pnode.status !== "online" && pnode.status !== "leaving") continue;
      if (this.#presence.alive(pnode.orchestrator, pnode.orchestratorIncarnation)) continue;
      present.add(pnode.attachment);
      const known = this.#since.get(pnode.attachment);
      const since = known ?? { ms: nowMs, checks: 0 };
      this.#since.set(pnode.attachment, since);
      if (known === undefined) this.#hooks.onFound(pnode);
      const goneMs = this.#presence.goneSinceMs(pnode.orchestrator, pnode.orchestratorIncarnation);
      // Counting checks as well guards against a clock that leaps ahead.
      if ((goneMs ?? nowMs - since.ms) >= timings.orphanGraceMs && ++since.checks >= checksLeast) due.push(pnode);
    }
    for (const attachment of this.#since.keys()) if (!present.has(attachment)) this.#since.delete(attachment);
    await forEachAtOnce(due, 32, (pnode) => this.#lose(pnode));
  }

  async #lose(pnode: PNodeRecord): Promise<void> {
    const detail = `its orchestrator ${pnode.orchestrator} is gone and it attached nowhere else`;
    const { record, written } = await this.#context.mirror.update(key.pnode(pnode.id), (current) =>
      current?.attachment === pnode.attachment && current.status !== "lost"
        ? { ...current, status: "lost" as const, detail, history: afterFailure(current.history) }
        : undefined,
    );
    if (!written || !record) return;
    this.#context.events.emit("warn", "pnode.lost", `PNode ${pnode.name} is lost: ${detail}`, { pnode: pnode.id });
    this.#hooks.onLost(record);
  }
}
