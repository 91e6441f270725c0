// What happened to sessions while no orchestrator was there: PNodes took VNodes over, and orchestrators that come back make
// it theirs. What a PNode says that it hosts is claimed of its room as soon as it registers: nothing else comes there before. A new epoch stands above every takeover that was heard of, whoever told it; the PNode that took the VNode over
// goes on with it if it is there and the owner is not: whoever is of a crew can say that it took something over, so a living
// owner is never replaced by that. Until those who come back had time to tell, nobody is judged.

import type { PNodeId, SessionId } from "../../core/ids.ts";
import { tenureFromWire } from "../../crew/charter.ts";
import { epochsAheadMax } from "../../crew/crew.ts";
import { isHigher, isTakeover, type Tenure } from "../../crew/tenures.ts";
import type { Hosted, Register } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { CrewReport } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { type Claim, claimState, claimsMax } from "../../scheduler/room.ts";
import type { Context } from "../context.ts";
import { claimId, type HeldClaim, type Rooms } from "../fleet/capacity/rooms.ts";
import { isOpen, type PNodeRecord } from "../records/machines.ts";
import { pnodeName } from "../records/names.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Member, VNodeRecord } from "../records/vnodes.ts";
import { isLive, vnodeRecordsOf } from "../records/workloads.ts";
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
  /** Whether the orchestrator to which it attached is there: records name owners that died while nobody was. */
  readonly isAttached: (pnode: PNodeRecord) => boolean;
  /** Whom this orchestrator waits for has changed. */
  readonly onAwaited: () => void;
}

/** As much of a registration as tells what its machine hosts. */
export type TellsHosted = Pick<Register, "incarnation"> & { readonly hosted: readonly Told[] };
type Told = Pick<Hosted, "session" | "vnode" | "epoch">;

interface TakenOver {
  readonly session: SessionRecord;
  readonly record: VNodeRecord;
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
  /** There was a session that may have gone on by itself when this orchestrator came. */
  #mayBeMissed = false;

  constructor(context: Context, needs: AdoptionNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#startedMs = context.world.clock.monotonicMs();
    context.mirror.on("session", (now, before) => {
      if (this.#mayBeMissed || before !== undefined || now?.status !== "running" || this.settlesInMs === 0) return;
      if (!needs.charters.isAutonomous(now)) return;
      this.#mayBeMissed = true;
      needs.onAwaited();
      this.#awaitSettled();
    });
  }

  #awaitSettled(): void {
    const { tasks } = this.#context;
    if (this.settlesInMs === 0) this.#needs.onAwaited();
    else tasks.after(this.settlesInMs, () => this.#awaitSettled());
  }

  /** How long until those who went on by themselves had time to come and tell; 0: they had. */
  get settlesInMs(): number {
    const { world, timings } = this.#context;
    const leftMs = this.#startedMs + 1.5 * timings.silentMs - world.clock.monotonicMs();
    // Whoever waits for less than a clock can tell wakes at the same moment, and waits again.
    return Math.max(0, Math.ceil(leftMs));
  }

  /** Whether PNodes that attached nowhere may be judged: as long as a crew may be on its way back, they may not. */
  mayJudge(): boolean {
    return this.settlesInMs === 0 || this.#needs.charters.sessions().length === 0;
  }

  /** Whether a machine may host more than is claimed of it: it has not come to say so to an orchestrator that was not there. */
  isAwaited({ orchestratorIncarnation }: PNodeRecord): boolean {
    return this.#mayBeMissed && this.settlesInMs > 0 && orchestratorIncarnation !== this.#context.incarnation;
  }

  /** Whether a machine hosts what is not its own by the records. */
  hasTakenOver(pnode: PNodeId, { hosted, incarnation }: TellsHosted): boolean {
    return this.#takenOver(pnode, incarnation, hosted).length > 0;
  }

  /** Claims room for that by each VNode. What finds none is let go when it would be adopted. */
  async count(pnode: PNodeId, { hosted, incarnation }: TellsHosted): Promise<void> {
    if (this.#isOverruled(pnode)) return;
    const groups = this.#takenOver(pnode, incarnation, hosted).flatMap(({ session, record }) => {
      if (!this.#needs.charters.crewOf(session.id).has(pnode)) return [];
      const claims = { [claimId(this.#context)]: claimOf(session, record, epochAbove(record, record.epoch)) };
      return { workload: session.id, claims };
    });
    if (groups.length > 0) await this.#needs.rooms.claim(new Map([[pnode, groups]]));
  }

  #takenOver(pnode: PNodeId, incarnation: string, hosted: readonly Told[]): TakenOver[] {
    const { mirror } = this.#context;
    return hosted.slice(0, claimsMax).flatMap((told) => {
      const session = mirror.get(key.session(told.session));
      const record = mirror.get(key.vnode(told.session, told.vnode));
      if (session === undefined || record === undefined || !isLive(session)) return [];
      // A takeover under another epoch than the record's is nobody's to go on with.
      if (!this.#needs.charters.isAutonomous(session) || Number(told.epoch) !== record.epoch) return [];
      const isOwn = record.members.some((one) => one.pnode === pnode && one.incarnation === incarnation);
      return isOwn ? [] : [{ session, record }];
    });
  }

  /** From a heartbeat: only those of a crew are heard. */
  hear(pnode: PNodeId, reports: readonly CrewReport[]): void {
    if (this.#isOverruled(pnode)) return;
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
        if (!isPossible(tenure.epoch, this.#context.mirror.get(key.vnode(id, tenure.vnode)))) continue;
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
    const epoch = epochAbove(record, tenure.epoch);
    const members = await this.#members(session, record, tenure, epoch);
    if (members.some((member) => member.pnode !== tenure.owners[0]?.pnode)) this.#overrule(by);
    const { record: now, written } = await mirror.update(key.vnode(session.id, record.vnode), (current) =>
      current && current.epoch === record.epoch ? { ...current, epoch, members } : undefined,
    );
    const before = new Set(record.members.map(({ claim }) => claim));
    // Another orchestrator may have made the same member, on the same claim.
    const held = new Set(now?.members.map(({ claim }) => claim));
    const left: readonly HeldClaim[] = (
      written ? record.members : members.filter(({ claim }) => !before.has(claim))
    ).filter(({ claim }) => !held.has(claim));
    if (written && now) {
      const who = members[0] ? pnodeName(mirror, members[0].pnode) : "nobody who is here";
      events.emit(
        "info",
        "vnode.adopted",
        `VNode ${record.vnode} was taken over while no orchestrator was there; ${who} goes on with it`,
        { session: session.id, vnode: record.vnode, ...(members[0] && { pnode: members[0].pnode }) },
      );
    }
    await this.#needs.rooms.giveBack(left);
  }

  #isOverruled(pnode: PNodeId): boolean {
    return this.#context.world.clock.monotonicMs() < (this.#overruled.get(pnode) ?? 0);
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
    const isHere =
      pnode !== undefined && pnode.incarnation === owner?.incarnation && isOpen(pnode) && this.#needs.isAttached(pnode);
    const alive = survivors(this.#context, record);
    const before = isHere && alive.find((member) => member.pnode === pnode.id);
    if (before) return [{ ...before, since: Math.min(before.since, under) }];
    if (alive.some((member) => this.#isBack(member)) || !isHere || under > record.epoch)
      return alive.map((member) => ({ ...member, since: epoch }));
    const claim = await this.#claim(session, record, pnode, epoch);
    // It has hosted the VNode since that epoch, and goes on.
    return claim ? [memberOf(pnode, claim, under)] : [];
  }

  #isBack({ pnode }: Member): boolean {
    const record = this.#context.mirror.get(key.pnode(pnode));
    return record !== undefined && this.#needs.isAttached(record);
  }

  async #claim(session: SessionRecord, record: VNodeRecord, pnode: PNodeRecord, epoch: number) {
    const { vnode } = record;
    const counted = await this.#counted(pnode, record, epoch);
    const claim = counted ?? claimId(this.#context);
    let life = pnode.life;
    if (counted === undefined) {
      const group = { workload: session.id, claims: { [claim]: claimOf(session, record, epoch) } };
      const grant = (await this.#needs.rooms.claim(new Map([[pnode.id, [group]]]))).get(pnode.id);
      if (!grant?.workloads.has(session.id)) return undefined;
      life = grant.life;
    }
    const reason = "it took the VNode over while no orchestrator was there";
    return { vnode, pnode: pnode.id, copy: 0, reason, claim, life };
  }

  /** The claim that was made when it told that it hosts the VNode, by whichever orchestrator. */
  async #counted(pnode: PNodeRecord, record: VNodeRecord, epoch: number): Promise<string | undefined> {
    const room = await this.#context.mirror.read(key.room(pnode.id));
    const found = Object.entries(room?.life === pnode.life ? room.claims : {}).find(
      ([id, claim]) =>
        claim.session === record.session &&
        claim.vnode === record.vnode &&
        claim.epoch === epoch &&
        claimState(id, claim, record) === "open",
    );
    return found?.[0];
  }
}

function isPossible(under: number, record: Pick<VNodeRecord, "epoch"> = { epoch: 0 }): boolean {
  return record.epoch <= under && under <= record.epoch + epochsAheadMax;
}

/** The epoch under which a takeover becomes the store's. */
function epochAbove(record: VNodeRecord, under: number): number {
  return Math.max(record.epoch, under) + 1;
}

function claimOf({ id, requirements }: SessionRecord, { vnode, memoryBytes }: VNodeRecord, epoch: number): Claim {
  return { session: id, vnode, epoch, memoryBytes, gpus: requirements.gpus };
}
