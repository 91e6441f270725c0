// Carries out what the rules of this folder decide for sessions that are checked: opens intervals as the line moves, drives
// audits and disputes, notes what they say of machines, goes back where somebody was wrong, and moves what is final.

import { messageOf } from "../../core/errors.ts";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import type { RecordAuditRequest } from "../../protocol/gen/dcnr/v1/trust_pb.ts";
import { isSignedBy, resultOf, statementFromWire } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Accused, AuditRecord, DrawnInterval, IntervalRecord, RepairPlan } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isChecked, isLive, type VNodeRecords } from "../records/workloads.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Garbage } from "../sessions/garbage.ts";
import { noteFailure } from "../workloads/failures.ts";
import type { AuditFacts } from "./asking.ts";
import { type Auditors, isOfClass } from "./auditors.ts";
import { Closing } from "./closing.ts";
import { contradictionAt } from "./contradictions.ts";
import { advanced, isClosed } from "./disputes.ts";
import {
  drawnIn,
  intervalsOf,
  isAwaited,
  openInterval,
  statedTogether,
  stuckInterval,
  togetherIn,
} from "./intervals.ts";
import { LockerWatch } from "./locker-watch.ts";
import { isDrawnAgain } from "./lottery.ts";
import { alarmed, repair, replanned } from "./repair.ts";
import { countedAt, type Parted, type Span, type Trouble, uncountedAt } from "./seams.ts";
import { excused, type Missing, missingOf, quietMsMost, wasLetGo } from "./silence.ts";
import { isOut } from "./standing.ts";
import type { Standings } from "./standings.ts";
import { mustBeUndone, Verdicts } from "./verdicts.ts";
import { Waits } from "./waits.ts";

interface Seen {
  readonly isReady: boolean;
  readonly isSpoiled: boolean;
  readonly missing: Missing | undefined;
  readonly unreadable: ReadonlySet<string>;
}

export interface TrustNeeds {
  /** Plans with all lanes alone: who sent what is looked up in them. */
  readonly compiled: Pick<Compiled, "planOf">;
  readonly rooms: Rooms;
  readonly auditors: Auditors;
  readonly standings: Standings;
  readonly garbage: Garbage;
  /** Pays those who check, and takes from those who lied. */
  readonly ledger: Ledger;
}

/** A slow machine repeats a billion operations a second; the rest is for loading and waiting. */
const patienceMsLeast = 60_000;
const slowestFlops = 1e9;
/** Intervals that are checked whatever is drawn. */
const dueForSure = 5;
/** Moves of machines that come and go may part a group at a line more than once. */
const partingsMax = 2;

/** Opened by somebody who died, or was overtaken, before the line had passed it: it counts once the line does, and contradictions may still come to light. */
function isAhead({ stuck, to }: IntervalRecord, { line }: SessionRecord): boolean {
  return stuck === undefined && to > line;
}

/** What the line cannot pass is told by a write of its own, after the interval's: all that pass it are told with the line. */
function isTold({ turn = 0, drawn = [] }: SessionRecord, interval: IntervalRecord): boolean {
  if (interval.stuck === undefined || interval.turn !== turn) return true;
  const isListed = ({ vnode, to }: DrawnInterval) => drawn.some((one) => one.vnode === vnode && one.to === to);
  return drawnIn([interval]).every(isListed);
}

export class TrustCare {
  readonly #context: Context;
  readonly #needs: TrustNeeds;
  readonly #locker: LockerWatch;
  readonly #verdicts: Verdicts;
  readonly #closing: Closing;
  /** For answers of machines that are asked about something. */
  readonly #waits: Waits;

  constructor(context: Context, needs: TrustNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#waits = new Waits(context.world.clock);
    this.#locker = new LockerWatch(context);
    this.#verdicts = new Verdicts(context, needs.standings);
    this.#closing = new Closing(context, { ...needs, locker: this.#locker });
  }

  /** The record of an interval that the line is about to pass, written before the line is. */
  async open(session: SessionRecord, records: VNodeRecords, span: Span, root: string): Promise<IntervalRecord> {
    const { edges } = await this.#needs.compiled.planOf(session.identity);
    const stated = countedAt(session, records, edges, span.to);
    const interval = await openInterval(this.#context, this.#needs, session, { stated, span, root, edges });
    const { record } = await this.#context.mirror.update(key.interval(session.id, span.to), (current) =>
      current && current.turn >= interval.turn && current.stuck === undefined ? undefined : interval,
    );
    return record ?? interval;
  }

  /** Statements contradict each other: who is wrong is found out before the line moves on. */
  async stuck(session: SessionRecord, records: VNodeRecords, trouble: Trouble): Promise<void> {
    const { mirror, world, events } = this.#context;
    if (trouble.kind === "parted") return this.#together(session, records, trouble);
    const name = key.interval(session.id, trouble.to);
    const known = mirror.get(name);
    if (known !== undefined && known.turn >= (session.turn ?? 0) && !isAhead(known, session)) return;
    const { edges } = await this.#needs.compiled.planOf(session.identity);
    const stated = countedAt(session, records, edges, trouble.to);
    const interval = stuckInterval(session, stated, trouble, world.clock.wallMs());
    const accused = await this.#accusedAtOnce(session, records, trouble);
    const [[vnode, audit] = ["", undefined]] = Object.entries(interval.audits);
    const opened = audit && accused ? { ...interval, audits: { [vnode]: { ...audit, ...accused } } } : interval;
    const { written } = await mirror.update(name, (current) =>
      current && current.turn >= opened.turn && !isAhead(current, session) ? undefined : opened,
    );
    if (!written) return;
    events.emit(
      "error",
      "session.contradiction",
      `session ${session.id}, steps ${trouble.from} to ${trouble.to}: ${opened.stuck}`,
      {
        session: session.id,
        step: trouble.from,
      },
    );
    await this.#tellDrawn(session.id);
  }

  /**
   * VNodes that share weights were parted in the middle of an interval: it is computed again, by lives that began as they stand now. A move parts
   * them once. Whoever goes on stating what nobody can repeat would have the session go back for ever, and loses its part in it.
   */
  async #together(session: SessionRecord, records: VNodeRecords, { vnode, to }: Parted): Promise<void> {
    const { id, line, turn = 0, parted } = session;
    const times = parted?.line === line ? parted.times + 1 : 1;
    if (times > partingsMax) {
      const { edges } = await this.#needs.compiled.planOf(session.identity);
      const detail = "it states again and again what nobody can repeat, without the VNodes that share its weights";
      await this.#takeAway(id, uncountedAt(session, records, edges, to), detail);
    }
    const because = `VNode ${vnode} was parted from one that shares its weights, so that nobody could repeat what it states`;
    await repair(this.#context, id, { line, turn: turn + 1, because, change: () => ({ parted: { line, times } }) });
  }

  /**
   * What was final had to be computed again, because its states were lost, and came out otherwise: it is computed once more, by whoever is
   * there, and everybody who took part is checked for a while. Nothing below what is final is drawn, so whoever lies there would have it computed again for
   * ever: if it comes out otherwise once more, all of the first interval that does is repeated.
   */
  async deviated(session: SessionRecord, records: VNodeRecords, upTo: number, span: Span): Promise<void> {
    const { id, line, turn = 0, final = 0, deviated } = session;
    const times = deviated?.line === line ? deviated.times + 1 : 1;
    if (times > 1) {
      const { edges } = await this.#needs.compiled.planOf(session.identity);
      const doubtful = countedAt(session, records, edges, span.to);
      return this.stuck(session, records, { ...span, kind: "deviation", doubtful });
    }
    const owners = [...records.values()].flatMap((record) => record.statements?.[String(upTo)] ?? []);
    for (const { pnode } of owners)
      await this.#needs.standings.change(pnode, (standing) => ({
        ...standing,
        due: Math.max(standing.due, dueForSure),
      }));
    const because = `steps up to ${final} were final, and came out otherwise when lost states were computed again`;
    const change = () => ({ alarm: line, deviated: { line, times } });
    await repair(this.#context, id, { line, turn: turn + 1, because, change });
  }

  /** What two signatures prove without repeating anything. */
  async #accusedAtOnce(
    session: SessionRecord,
    records: VNodeRecords,
    trouble: Trouble,
  ): Promise<Pick<AuditRecord, "outcome" | "accused"> | undefined> {
    if (trouble.kind !== "seam") return undefined;
    const found = await contradictionAt(this.#context, session, records, trouble).catch((thrown: unknown) => {
      this.#context.world.log("warn", `a contradiction could not be looked at: ${messageOf(thrown)}`);
      return undefined;
    });
    if (found === undefined || (found.kind !== "equivocation" && found.kind !== "unsigned")) return undefined;
    const { pnode, message } = found;
    const wallMs = this.#context.world.clock.wallMs();
    const reason = `message ${message} of VNode ${trouble.sender}`;
    const told = { pnode, of: "delivery", result: "", after: "" } as const;
    const accused: Accused =
      found.kind === "equivocation"
        ? { ...told, verdict: "equivocation", story: `it signed two contents of ${reason} in one life` }
        : { ...told, verdict: "hardware", story: `it states ${reason} with a content that nobody signed` };
    return { outcome: { kind: "wrong", by: "nobody", reason, result: "", wallMs }, accused: [accused] };
  }

  /** Whatever can be decided about a session now; for whoever holds its lease. */
  async tend(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const session = mirror.get(key.session(id));
    if (session === undefined || !isChecked(session) || !isLive(session)) return;
    this.#waits.look();
    for (const interval of intervalsOf(this.#context, id)) {
      if (interval.repair !== undefined) {
        return this.#goBack(session, interval, interval.repair);
      }
      // Nobody has been told yet to store what it takes.
      if (isAhead(interval, session)) continue;
      // Whoever found the contradiction may have died before it told anybody: nobody is silent who was never asked.
      if (!isTold(session, interval)) await this.#tellDrawn(id);
      await this.#tendInterval(session, interval);
    }
    await this.#closing.finish(id);
    await this.#verdicts.endDoubts();
  }

  async #goBack({ id }: SessionRecord, interval: IntervalRecord, plan: RepairPlan): Promise<void> {
    const { mirror } = this.#context;
    const outcome = await repair(this.#context, id, { ...plan, change: (current) => alarmed(current, plan) });
    if (outcome === "done") {
      await this.#takeAway(id, plan.lapses ?? [], "what it had sent could not be had for checking");
      await this.#closing.undone(interval);
    }
    if (outcome !== "overtaken") return;
    const fresh = await readSession(this.#context, id);
    if (fresh === undefined) return;
    const next = replanned(plan, interval, fresh.session, fresh.records, intervalsOf(this.#context, id));
    await mirror.update(key.interval(id, interval.to), (current) =>
      current?.repair?.turn === plan.turn ? { ...current, repair: next } : undefined,
    );
  }

  /** Whoever did not give others what they need to check it computes nothing of this session for a while. */
  async #takeAway(id: SessionId, lapses: NonNullable<RepairPlan["lapses"]>, detail: string): Promise<void> {
    const { mirror } = this.#context;
    const hosts = (pnode: PNodeId) =>
      mirror.under(prefix.vnodesOf(id)).filter(({ members }) => members.some((member) => member.pnode === pnode));
    const lost = lapses.flatMap(({ pnode, vnode }) =>
      Array.from(new Set([vnode, ...hosts(pnode).map((one) => one.vnode)]), (one) => ({ pnode, vnode: one })),
    );
    for (const { pnode, vnode } of lost) {
      const epoch = mirror.get(key.vnode(id, vnode))?.epoch ?? 0;
      await noteFailure(this.#context, this.#needs.rooms, {
        ...{ workload: id, vnode, pnode, epoch, detail, kind: "lapsed" },
      });
    }
  }

  /** Whether somebody may still be found to have lied, so that what it has earned must not vest: a session ends after that. */
  isFindingOut(id: SessionId): boolean {
    const isOpen = ({ audits, repair }: IntervalRecord) =>
      repair !== undefined ||
      Object.values(audits).some(({ accused }) => accused.some(({ told }) => !told)) ||
      mustBeUndone({ audits });
    return intervalsOf(this.#context, id).some(isOpen);
  }

  /** Nothing is left open once the session is over. */
  async ended(id: SessionId): Promise<void> {
    await this.#closing.finish(id);
    await this.#verdicts.endDoubts();
  }

  async #tendInterval(session: SessionRecord, interval: IntervalRecord): Promise<void> {
    const { mirror } = this.#context;
    const open = Object.entries(interval.audits).filter(
      ([, audit]) => !isClosed(audit) || audit.accused.some(({ told }) => !told),
    );
    // Whoever found the last of it out may have died before it was told.
    if (open.length === 0) return mustBeUndone(interval) ? this.#verdicts.tell(session, interval) : undefined;
    const seen = new Map<string, Seen>();
    for (const [vnode, audit] of open) seen.set(vnode, await this.#see(session, interval, audit));
    let changed: [string, AuditRecord, AuditRecord][] = [];
    const { record, written } = await mirror.update(key.interval(session.id, interval.to), (current) => {
      changed = [];
      if (current === undefined || current.turn !== interval.turn || current.repair) return undefined;
      const audits = { ...current.audits };
      for (const [vnode] of open) {
        const before = current.audits[vnode];
        if (before === undefined) continue;
        const now = seen.get(vnode) as Seen;
        const ready = now.isReady && !before.ready ? { ...before, ready: true } : before;
        const after = advanced(ready, this.#facts(session, current, vnode as VNodeId, now));
        if (after === before) continue;
        audits[vnode] = after;
        changed.push([vnode, before, after]);
      }
      return changed.length > 0 ? { ...current, audits } : undefined;
    });
    if (written)
      for (const [vnode, before, after] of changed)
        await this.#verdicts.announce(session, interval, vnode, before, after);
    if (record !== undefined) await this.#verdicts.tell(session, record);
    if (written && changed.some(([, before, after]) => before.outcome === undefined && after.outcome !== undefined))
      await this.#tellDrawn(session.id);
  }

  /** What is stored of what an audit needs, and who has not stored the rest. */
  async #see(session: SessionRecord, interval: IntervalRecord, audit: AuditRecord): Promise<Seen> {
    const { auditors, compiled } = this.#needs;
    const stated = statedTogether(interval, audit);
    const isReady = !audit.ready && audit.outcome === undefined && (await this.#locker.isWhole(stated));
    const isSpoiled = await this.#locker.isSpoiled({ stated, tasks: audit.tasks });
    const unreadable = await this.#locker.unreadable(audit);
    const seen = { isReady, isSpoiled, unreadable, missing: undefined };
    if (audit.ready || isReady || audit.outcome !== undefined) return seen;
    if (this.#locker.quietMs(stated) < quietMsMost) return seen;
    // Something may have been stored behind a gap; then its sender is not silent.
    if (await this.#locker.isWholeAfterAll(stated)) return { ...seen, isReady: true };
    const quietMs = this.#locker.quietMs(stated);
    if (quietMs < quietMsMost) return seen;
    const { edges } = await compiled.planOf(session.identity);
    const { of, present } = this.#locker.lacking(stated);
    const isHere = (pnode: PNodeId) => auditors.isHere(pnode);
    const found = await missingOf(this.#context, session, interval, of, present, edges, isHere, quietMs);
    const missing = found && wasLetGo(session, interval) ? excused(found) : found;
    return { ...seen, missing };
  }

  #facts(session: SessionRecord, interval: IntervalRecord, vnode: VNodeId, seen: Seen): AuditFacts {
    const { mirror, world } = this.#context;
    const { auditors } = this.#needs;
    const own = interval.audits[vnode] as AuditRecord;
    const together = togetherIn(vnode, own);
    const isAtIt = new Set(
      together.slice(1).flatMap((one) => interval.audits[one]?.tasks.map(({ pnode }) => pnode) ?? []),
    );
    const flops = together.reduce((sum, one) => sum + (mirror.get(key.vnode(session.id, one))?.flops ?? 0), 0);
    return {
      ...{ isSpoiled: seen.isSpoiled, missing: seen.missing },
      isUnreadable: (state) => seen.unreadable.has(state),
      nowWallMs: world.clock.wallMs(),
      waitedMs: (sinceWallMs) =>
        this.#waits.ms(`${session.id} ${interval.to} ${interval.turn} ${vnode} ${sinceWallMs}`),
      assurance: session.policy.assurance ?? "none",
      strangers: session.policy.strangers ?? 1,
      again: isDrawnAgain(interval.draw, together.toSorted()[0] as VNodeId),
      openedWallMs: interval.openedWallMs,
      patienceMs: patienceMsLeast + ((interval.to - interval.from) * flops * 1_000) / slowestFlops,
      candidates: (except, trustedOnly) => {
        const all = auditors.candidates(session, together, interval.draw, except, trustedOnly);
        // Whoever repeats one that is repeated with it has its result too.
        return all.toSorted((a, b) => Number(isAtIt.has(b.pnode)) - Number(isAtIt.has(a.pnode)));
      },
      isHere: (pnode) => auditors.isHere(pnode),
      isOfClass: (pnode) => {
        const record = mirror.get(key.pnode(pnode));
        return record === undefined || isOfClass(record, session);
      },
      isOut: (pnode) => isOut(this.#needs.standings.of(pnode), session.numericsClass),
    };
  }

  /** What an auditor found. It has not been told what it should find. */
  async record(pnode: PNodeId, request: RecordAuditRequest): Promise<void> {
    const { mirror, verify } = this.#context;
    const { session, vnode, turn, failure, distance } = request;
    const statement = request.statement && statementFromWire(request.statement, session, vnode);
    if (statement !== undefined && (verify === undefined || !isSignedBy(statement, pnode, verify))) return;
    const to = statement?.to ?? Number(request.to);
    await mirror.update(key.interval(session, to), (current) => {
      const audit = current?.audits[vnode];
      if (current === undefined || audit === undefined || current.turn !== Number(turn)) return undefined;
      const at = audit.tasks.findIndex((task) => task.pnode === pnode && task.result === undefined && !task.gaveUp);
      const task = audit.tasks[at];
      if (task === undefined) return undefined;
      const found =
        statement === undefined
          ? {
              gaveUp: `could not: ${failure.slice(0, 200)}`,
              wasUnable: true as const,
              isImpossible: request.impossible,
            }
          : { result: resultOf(statement), after: statement.afterBytes > 0 ? statement.after : "", distance };
      const tasks = audit.tasks.with(at, { ...task, ...found });
      return { ...current, audits: { ...current.audits, [vnode]: { ...audit, tasks } } };
    });
  }

  /** The session's record says what is still needed, so that lines and this are told together. */
  async #tellDrawn(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current)) return undefined;
      const still = (current.drawn ?? []).filter(({ vnode, to }) => {
        const interval = mirror.get(key.interval(id, to));
        return interval?.audits[vnode] === undefined || isAwaited(interval, vnode);
      });
      const isNew = ({ vnode, to }: DrawnInterval) => !still.some((one) => one.vnode === vnode && one.to === to);
      const stuck = drawnIn(
        intervalsOf(this.#context, id).filter((one) => one.stuck !== undefined && one.turn === (current.turn ?? 0)),
      );
      const next = [...still, ...stuck.filter(isNew)];
      return JSON.stringify(next) === JSON.stringify(current.drawn ?? []) ? undefined : { ...current, drawn: next };
    });
  }
}
