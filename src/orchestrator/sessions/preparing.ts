// While a PNode in doubt has its grace, those who would take over its VNodes load them already: what a loss costs is
// then the grace and the replay. Only a hint: nobody owns anything by it, and a wrong guess costs nothing but work.

import type { PNodeId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { inTurns, Pace } from "../../scheduler/placement/pace.ts";
import { placingAnywhere } from "../../scheduler/schedule.ts";
import type { Context } from "../context.ts";
import { workOf } from "../fleet/attached/assignments.ts";
import type { Attachment } from "../fleet/attached/attachment.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive, vnodeRecordsOf } from "../records/workloads.ts";
import type { BlobRights } from "../workloads/blob-rights.ts";
import type { Care } from "../workloads/care.ts";
import { policyFor } from "../workloads/recovery.ts";

/** PNodes that go down together are noticed within this time. */
const gatherMs = 20;

export interface PreparingNeeds {
  readonly capacity: Capacity;
  readonly sessions: Care<SessionRecord>;
  readonly attachments: ReadonlyMap<PNodeId, Attachment>;
  readonly blobRights: BlobRights;
}

export class Preparing {
  readonly #context: Context;
  readonly #capacity: Capacity;
  readonly #sessions: Care<SessionRecord>;
  readonly #attachments: ReadonlyMap<PNodeId, Attachment>;
  readonly #blobRights: BlobRights;
  readonly #doubted = new Set<PNodeId>();

  constructor(context: Context, needs: PreparingNeeds) {
    this.#context = context;
    this.#capacity = needs.capacity;
    this.#sessions = needs.sessions;
    this.#attachments = needs.attachments;
    this.#blobRights = needs.blobRights;
  }

  doubt(pnode: PNodeId): void {
    if (this.#capacity.vnodesOn(pnode).size === 0) return;
    const isFirst = this.#doubted.size === 0;
    this.#doubted.add(pnode);
    if (!isFirst) return;
    const { tasks } = this.#context;
    tasks.after(gatherMs, () => tasks.run("preparing for a loss", () => this.#prepare()));
  }

  async #prepare(): Promise<void> {
    const doubted = new Set(this.#doubted);
    this.#doubted.clear();
    const workloads = new Set(Array.from(doubted).flatMap((pnode) => this.#capacity.workloadsOn(pnode)));
    for (const id of workloads) {
      // Replicas load by themselves, from files that their PNodes keep.
      const session = this.#context.mirror.get(key.session(id));
      if (session && isLive(session)) await this.#prepareSession(session, doubted);
    }
  }

  async #prepareSession(session: SessionRecord, doubted: ReadonlySet<PNodeId>): Promise<void> {
    const { mirror, world } = this.#context;
    const plan = await this.#sessions.plan(session);
    const records = vnodeRecordsOf(mirror, session);
    const classes = this.#sessions.classes(session, records);
    const policy = policyFor(this.#context, session, records, { without: doubted, ...(classes && { classes }) });
    const others = this.#capacity.fleet.copy();
    for (const pnode of doubted) others.delete(pnode);
    const search = placingAnywhere(plan, others, policy, new Pace());
    const { decisions } = await inTurns(search, () => sleep(world.timers, 0));
    for (const [pnode, own] of Map.groupBy(decisions, (decision) => decision.pnode)) {
      const vnodes = own.flatMap(({ vnode }) => records.get(vnode) ?? []);
      const classOf = new Map(own.map((decision) => [decision.vnode, decision.class]));
      this.#blobRights.prepares(
        pnode,
        session.id,
        vnodes.map(({ vnode }) => vnode),
      );
      this.#attachments.get(pnode)?.tellPrepare(
        vnodes.map((record) => ({
          ...{ session: session.id, vnode: record.vnode },
          work: workOf(mirror, record, classOf.get(record.vnode)),
        })),
      );
    }
  }
}
