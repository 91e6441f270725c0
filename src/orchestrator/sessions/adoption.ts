// What happened to sessions while no orchestrator was there: PNodes took VNodes over, and orchestrators that come back make
// it theirs. A new epoch stands above every takeover that was heard of, whoever told it; the PNode that took the VNode over
// goes on with it if it is there and the owner is not: whoever is of a crew can say that it took something over, so a living
// owner is never replaced by that. Until those who come back had time to tell, nobody is judged.

import type { PNodeId, SessionId } from "../../core/ids.ts";
import { tenureFromWire } from "../../crew/charter.ts";
import { epochsAheadMax } from "../../crew/crew.ts";
import { isHigher, isTakeover, type Tenure } from "../../crew/tenures.ts";
import type { CrewReport } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { Context } from "../context.ts";
import { claimId, type HeldClaim, type Rooms } from "../fleet/capacity/rooms.ts";
import { isOpen, type PNodeRecord } from "../records/machines.ts";
import { pnodeName } from "../records/names.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Member, VNodeRecord } from "../records/vnodes.ts";
import { vnodeRecordsOf } from "../records/workloads.ts";
import { memberOf, survivors } from "../workloads/recovery.ts";
import type { Charters } from "./charters.ts";

const takeoversMax = 20_000;
/** Whoever told of a takeover from an owner that was there all the time is not heard for so long: each costs a new start. */
const overruledMs = 60_000;

export interface AdoptionNeeds {
  readonly charters: Charters;
  readonly rooms: Rooms;
  /** A session of which something was heard has to be looked at, whoever holds its lease. */
  readonly touch: (session: SessionId) => void;
}

interface Heard {
  readonly tenure: Tenure;
  readonly by: PNodeId;
}

export class Adoption {
  readonly #context: Context;
  readonly #needs: AdoptionNeeds;
  readonly #startedMs: number;
  /** The highest takeover heard of, by session and VNode. */
  readonly #heard = new Map<SessionId, Map<string, Heard>>();
  /** Until when they are not heard. */
  readonly #overruled = new Map<PNodeId, number>();

  constructor(context: Context, needs: AdoptionNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#startedMs = context.world.clock.monotonicMs();
  }

  /** How long until those who went on by themselves had time to come and tell; 0: they had. */
  get settlesInMs(): number {
    const { world, timings } = this.#context;
    return Math.max(0, this.#startedMs + 1.5 * timings.silentMs - world.clock.monotonicMs());
  }

  /** Whether PNodes that attached nowhere may be judged: as long as a crew may be on its way back, they may not. */
  mayJudge(): boolean {
    return this.settlesInMs === 0 || this.#needs.charters.sessions().length === 0;
  }

  /** From a heartbeat: only those of a crew are heard. */
  hear(pnode: PNodeId, reports: readonly CrewReport[]): void {
    if (this.#context.world.clock.monotonicMs() < (this.#overruled.get(pnode) ?? 0)) return;
    for (const report of reports) {
      const id = report.session as SessionId;
      const session = this.#context.mirror.get(key.session(id));
      if (!session || report.takeovers.length === 0 || report.takeovers.length > takeoversMax) continue;
      if (!this.#needs.charters.crewOf(id).has(pnode)) continue;
      const known = this.#heard.get(id) ?? new Map<string, Heard>();
      let isNews = false;
      for (const wire of report.takeovers) {
        const tenure = tenureFromWire(wire);
        if (!isTakeover(tenure) || !session.vnodes.includes(tenure.vnode)) continue;
        const { epoch = 0 } = this.#context.mirror.get(key.vnode(id, tenure.vnode)) ?? {};
        if (epoch > tenure.epoch || tenure.epoch > epoch + epochsAheadMax) continue;
        if (!isHigher(tenure, known.get(tenure.vnode)?.tenure)) continue;
        known.set(tenure.vnode, { tenure, by: pnode });
        isNews = true;
      }
      this.#heard.set(id, known);
      if (isNews) this.#needs.touch(id);
    }
  }

  forget(session: SessionId): void {
    this.#heard.delete(session);
  }

  /** Before anything is placed: makes takeovers the store's. False while it is too early to place anything. */
  async settle(session: SessionRecord): Promise<boolean> {
    if (!this.#needs.charters.isAutonomous(session)) return true;
    const waitMs = this.settlesInMs;
    const records = [...vnodeRecordsOf(this.#context.mirror, session).values()];
    // Without owners there was nobody who could have gone on.
    if (waitMs > 0 && records.some(({ members }) => members.length > 0)) {
      this.#context.tasks.after(waitMs, () => this.#needs.touch(session.id));
      return false;
    }
    const heard = this.#heard.get(session.id);
    for (const [vnode, { tenure, by }] of heard ?? []) {
      const record = this.#context.mirror.get(key.vnode(session.id, vnode));
      if (record && record.epoch <= tenure.epoch) await this.#adopt(session, record, tenure, by);
      heard?.delete(vnode);
    }
    return true;
  }

  async #adopt(session: SessionRecord, record: VNodeRecord, tenure: Tenure, by: PNodeId): Promise<void> {
    const { mirror, events } = this.#context;
    const epoch = Math.max(record.epoch, tenure.epoch) + 1;
    const members = await this.#members(session, record, tenure, epoch);
    if (members.some((member) => member.pnode !== tenure.owners[0]?.pnode)) this.#overrule(by);
    let left: readonly HeldClaim[] = members;
    const { record: now, written } = await mirror.update(key.vnode(session.id, record.vnode), (current) =>
      current && current.epoch === record.epoch ? { ...current, epoch, members } : undefined,
    );
    if (written && now) {
      const held = new Set(now.members.map(({ claim }) => claim));
      left = record.members.filter(({ claim }) => !held.has(claim));
      const who = members[0] ? pnodeName(mirror, members[0].pnode) : "nobody who is here";
      events.emit(
        "info",
        "vnode.adopted",
        `VNode ${record.vnode} was taken over while no orchestrator was there; ${who} goes on with it`,
        { session: session.id, vnode: record.vnode, ...(members[0] && { pnode: members[0].pnode }) },
      );
    } else left = members.filter(({ claim }) => !record.members.some((one) => one.claim === claim));
    await this.#needs.rooms.giveBack(left);
  }

  #overrule(by: PNodeId): void {
    const nowMs = this.#context.world.clock.monotonicMs();
    for (const [pnode, untilMs] of this.#overruled) if (untilMs <= nowMs) this.#overruled.delete(pnode);
    this.#overruled.set(by, nowMs + overruledMs);
  }

  /** Those who own it by the record and are here, from the beginning; else who took it over; else nobody yet. */
  async #members(
    session: SessionRecord,
    record: VNodeRecord,
    { epoch: under, owners }: Tenure,
    epoch: number,
  ): Promise<Member[]> {
    const { mirror } = this.#context;
    const [owner] = owners;
    const pnode = owner && mirror.get(key.pnode(owner.pnode));
    const isHere = pnode !== undefined && pnode.incarnation === owner?.incarnation && isOpen(pnode);
    const alive = survivors(this.#context, record);
    const before = isHere && alive.find((member) => member.pnode === pnode.id);
    if (before) return [{ ...before, since: Math.min(before.since, under) }];
    if (alive.length > 0 || !isHere || under > record.epoch)
      return alive.map((member) => ({ ...member, since: epoch }));
    const claim = await this.#claim(session, record, pnode, epoch);
    // It has hosted the VNode since that epoch, and goes on.
    return claim ? [memberOf(pnode, claim, under)] : [];
  }

  async #claim(session: SessionRecord, record: VNodeRecord, { id }: PNodeRecord, epoch: number) {
    const claim = claimId(this.#context);
    const { vnode, memoryBytes } = record;
    const own = { session: session.id, vnode, epoch, memoryBytes, gpus: session.requirements.gpus };
    const grants = await this.#needs.rooms.claim(new Map([[id, [{ workload: session.id, claims: { [claim]: own } }]]]));
    const grant = grants.get(id);
    if (!grant?.workloads.has(session.id)) return undefined;
    const reason = "it took the VNode over while no orchestrator was there";
    return { vnode, pnode: id, copy: 0, reason, claim, life: grant.life };
  }
}
