// PNodes that nobody looks after: their orchestrator died, or a registration was written and its answer never came. They
// attach elsewhere within a moment; those that do not are lost as well.

import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { key, prefix } from "../../records/store-keys.ts";
import { forEachAtOnce } from "../../tasks.ts";
import { afterFailure } from "../believed/reliability.ts";
import type { Presence } from "./presence.ts";

const checksLeast = 2;
/** While there are any; otherwise it looks whenever the other orchestrators were looked at. */
const recheckMs = 250;

export interface OrphanHooks {
  /** Of a PNode whose record names this orchestrator: whether it knows of the attachment. */
  looksAfter(pnode: PNodeRecord): boolean;
  onFound(pnode: PNodeRecord): void;
  onLost(pnode: PNodeRecord): void;
  /** False while somebody may still be on the way back from a time without orchestrators. */
  mayJudge(): boolean;
}

/** When this orchestrator first saw each attachment without anybody to look after it, and how often it was over time. */
export type Orphaned = ReadonlyMap<string, { readonly sinceMs: number; readonly checks: number }>;

export interface Orphan {
  readonly pnode: PNodeRecord;
  /** How long its orchestrator is gone, where that is known for sure: the PNode has known as long. */
  readonly goneMs: number | undefined;
}

export interface OrphansSeen {
  readonly orphaned: Orphaned;
  readonly found: readonly PNodeRecord[];
  readonly lost: readonly PNodeRecord[];
}

/** What one look at all orphans there are now says about them. Pure. */
export function seenOrphans(before: Orphaned, orphans: readonly Orphan[], nowMs: number, graceMs: number): OrphansSeen {
  const orphaned = new Map<string, { readonly sinceMs: number; readonly checks: number }>();
  const found: PNodeRecord[] = [];
  const lost: PNodeRecord[] = [];
  for (const { pnode, goneMs } of orphans) {
    const known = before.get(pnode.attachment);
    const { sinceMs, checks } = known ?? { sinceMs: nowMs, checks: 0 };
    if (known === undefined) found.push(pnode);
    // Counting checks as well guards against a clock that leaps ahead.
    const overdue = checks + ((goneMs ?? nowMs - sinceMs) >= graceMs ? 1 : 0);
    if (overdue > checks && overdue >= checksLeast) lost.push(pnode);
    orphaned.set(pnode.attachment, { sinceMs, checks: overdue });
  }
  return { orphaned, found, lost };
}

export class Orphans {
  readonly #context: Context;
  readonly #presence: Presence;
  readonly #hooks: OrphanHooks;
  #checking = false;
  #rechecks = false;
  #orphaned: Orphaned = new Map();

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
    if (this.#rechecks || this.#orphaned.size === 0) return;
    this.#rechecks = true;
    const { tasks } = this.#context;
    tasks.after(recheckMs, () => {
      this.#rechecks = false;
      tasks.run("the search for orphans", () => this.check());
    });
  }

  async #look(): Promise<void> {
    const { world, timings } = this.#context;
    const seen = seenOrphans(this.#orphaned, this.#orphans(), world.clock.monotonicMs(), timings.orphanGraceMs);
    this.#orphaned = seen.orphaned;
    for (const pnode of seen.found) this.#hooks.onFound(pnode);
    if (this.#hooks.mayJudge()) await forEachAtOnce(seen.lost, 32, (pnode) => this.#lose(pnode));
  }

  #orphans(): Orphan[] {
    const orphans: Orphan[] = [];
    for (const pnode of this.#context.mirror.under(prefix.pnodes)) {
      if (pnode.status !== "online" && pnode.status !== "leaving") continue;
      const { orchestrator, orchestratorIncarnation } = pnode;
      if (this.#presence.alive(orchestrator, orchestratorIncarnation)) {
        if (orchestrator !== this.#context.id || this.#hooks.looksAfter(pnode)) continue;
        orphans.push({ pnode, goneMs: undefined });
      } else orphans.push({ pnode, goneMs: this.#presence.goneSinceMs(orchestrator, orchestratorIncarnation) });
    }
    return orphans;
  }

  async #lose(pnode: PNodeRecord): Promise<void> {
    const isOwn =
      pnode.orchestrator === this.#context.id && pnode.orchestratorIncarnation === this.#context.incarnation;
    const detail = isOwn
      ? "it registered and was not heard of again"
      : `its orchestrator ${pnode.orchestrator} is gone and it attached nowhere else`;
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
