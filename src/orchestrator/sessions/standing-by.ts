// Who would take VNodes over if an owner were lost, asked before anybody is: they start their threads and build the graphs, which
// takes longer than all else between a kill and the first step that is computed again. Only a hint: nobody owns anything by it.

import type { PNodeId, SessionId, VNodeId, WorkloadId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import type { Fleet } from "../../scheduler/placement/fleet.ts";
import { inTurns, Pace } from "../../scheduler/placement/pace.ts";
import { placingAnywhere } from "../../scheduler/schedule.ts";
import type { Context } from "../context.ts";
import type { Attachment } from "../fleet/attached/attachment.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { PNodeRecord } from "../records/machines.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { isLive, onWorkload, vnodeRecordsOf } from "../records/workloads.ts";
import type { Care } from "../workloads/care.ts";
import { policyFor } from "../workloads/recovery.ts";

/** What changes together is looked at together, and what a loss causes is over. */
const settleMs = 1_000;
/** The next ones wait for the next look: a fleet that comes at once must not hold placement up. */
const sessionsAtOnce = 4;
/** Whoever follows these follows the others too, nearly always. */
const ownersTried = 4;
/** Of one PNode: each takes memory for its graphs. */
const sessionsMax = 4;

export interface StandingByNeeds {
  readonly capacity: Pick<Capacity, "fleet">;
  readonly sessions: Pick<Care<SessionRecord>, "plan" | "classes">;
  readonly attachments: ReadonlyMap<PNodeId, Pick<Attachment, "tellStandBy">>;
}

type Successors = ReadonlyMap<PNodeId, ReadonlySet<VNodeId>>;

export class StandingBy {
  readonly #context: Context;
  readonly #needs: StandingByNeeds;
  /** Sessions to look at, the oldest first. */
  readonly #changed = new Set<SessionId>();
  readonly #successors = new Map<SessionId, Successors>();
  /** By attachment, so that whoever attaches anew is told anew. */
  readonly #told = new WeakMap<object, string>();
  #isLooking = false;

  constructor(context: Context, needs: StandingByNeeds) {
    this.#context = context;
    this.#needs = needs;
    const { mirror } = context;
    onWorkload(mirror, (now, before) => {
      // One that is deleted may come again under its id with other settings: what is known of the first one is void at once.
      if (before && !(now && isLive(now) && now.createdWallMs === before.createdWallMs)) this.#ended(before.id);
    });
    mirror.on("vnode", (now, before) => {
      const session = (now ?? before)?.session as SessionId | undefined;
      if (session !== undefined && ownersOf(now) !== ownersOf(before)) this.#touch(session);
    });
    mirror.on("pnode", (now, before) => {
      if (now?.status !== before?.status || now?.attachment !== before?.attachment) this.#moved(now ?? before);
    });
  }

  #ended(id: WorkloadId): void {
    if (this.#successors.delete(id as SessionId)) this.#tell();
  }

  /** Sessions that have nobody else to turn to, and those that counted on it, are looked at again. */
  #moved(pnode: Pick<PNodeRecord, "id"> | undefined): void {
    for (const [session, successors] of this.#successors)
      if (successors.size === 0 || (pnode && successors.has(pnode.id))) this.#touch(session);
  }

  #touch(session: SessionId): void {
    this.#changed.add(session);
    this.#lookLater();
  }

  #lookLater(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { tasks } = this.#context;
    tasks.after(settleMs, () =>
      tasks.run("who stands by", async () => {
        try {
          await this.#look();
        } finally {
          this.#isLooking = false;
          if (this.#changed.size > 0 && !tasks.stopped) this.#lookLater();
        }
      }),
    );
  }

  async #look(): Promise<void> {
    const now = [...this.#changed].slice(0, sessionsAtOnce);
    for (const id of now) this.#changed.delete(id);
    // One copy for all that is tried: a large fleet's costs more than what is looked for in it.
    const fleet = this.#needs.capacity.fleet.copy();
    for (const id of now) {
      const session = this.#context.mirror.get(key.session(id));
      if (!session || !isLive(session)) continue;
      const successors = await this.#successorsOf(session, fleet);
      const { createdWallMs } = this.#context.mirror.get(key.session(id)) ?? {};
      // Looked at again by what created it anew.
      if (createdWallMs === session.createdWallMs) this.#successors.set(id, successors);
    }
    this.#tell();
  }

  /** Those who host nothing of it yet; who does has all that others start. */
  async #successorsOf(session: SessionRecord, fleet: Fleet): Promise<Successors> {
    const { mirror, world } = this.#context;
    const { sessions } = this.#needs;
    const records = vnodeRecordsOf(mirror, session);
    const owners = new Set([...records.values()].flatMap(({ members }) => members.map(({ pnode }) => pnode)));
    const plan = await sessions.plan(session);
    const classes = sessions.classes(session, records);
    const found = new Map<PNodeId, Set<VNodeId>>();
    for (const owner of [...owners].sort().slice(0, ownersTried)) {
      const policy = policyFor(this.#context, session, records, {
        without: new Set([owner]),
        ...(classes && { classes }),
      });
      const lost = fleet.get(owner);
      fleet.delete(owner);
      const search = placingAnywhere(plan, fleet, policy, new Pace());
      const { decisions } = await inTurns(search, () => sleep(world.timers, 0));
      if (lost) fleet.set(lost);
      for (const { pnode, vnode } of decisions)
        if (!owners.has(pnode)) found.set(pnode, (found.get(pnode) ?? new Set()).add(vnode));
    }
    return found;
  }

  #tell(): void {
    const lists = new Map<PNodeId, { session: SessionId; vnodes: VNodeId[] }[]>();
    for (const [session, successors] of this.#successors)
      for (const [pnode, vnodes] of successors)
        lists.set(pnode, [...(lists.get(pnode) ?? []), { session, vnodes: [...vnodes].sort() }]);
    for (const [pnode, attachment] of this.#needs.attachments) {
      if (!lists.has(pnode) && !this.#told.has(attachment)) continue;
      const list = (lists.get(pnode) ?? []).slice(0, sessionsMax);
      const text = JSON.stringify(list);
      if ((this.#told.get(attachment) ?? "[]") === text) continue;
      this.#told.set(attachment, text);
      attachment.tellStandBy(list);
    }
  }
}

function ownersOf(record: VNodeRecord | undefined): string {
  return (record?.members ?? []).map(({ pnode }) => pnode).join(" ");
}
