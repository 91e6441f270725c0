// Carries out what the rules of this folder decide for sessions that are checked: opens intervals as the line moves, drives
// audits and disputes, notes what they say of machines, goes back where somebody was wrong, and moves what is final.

import { type ErrorCode, hasCode, messageOf } from "../../core/errors.ts";
import type { PNodeId, SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import type { RecordAuditRequest } from "../../protocol/gen/dcnr/v1/trust_pb.ts";
import { isSignedBy, resultOf, type Statement, statementFromWire } from "../../trust/statement.ts";
import { inputHashes } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { Accused, AuditRecord, DrawnInterval, IntervalRecord, Stated } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isChecked, isLive, type VNodeRecords } from "../records/workloads.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Garbage } from "../sessions/garbage.ts";
import { forEachAtOnce } from "../tasks.ts";
import { type Auditors, isOfClass } from "./auditors.ts";
import { contradictionAt } from "./contradictions.ts";
import { type AuditFacts, advanced, isClosed } from "./disputes.ts";
import { finalOf } from "./finality.ts";
import { drawnIn, isNeeded, openInterval, stuckInterval } from "./intervals.ts";
import { blobsOf, lineBefore, repair } from "./repair.ts";
import type { Span, Trouble } from "./seams.ts";
import { withRight } from "./standing.ts";
import type { Standings } from "./standings.ts";

export interface TrustNeeds {
  readonly auditors: Auditors;
  readonly standings: Standings;
  readonly compiled: Compiled;
  readonly garbage: Garbage;
  /** Hears of intervals that have become final, once each: who owned what. */
  readonly onFinal: (interval: IntervalRecord) => void;
}

const asksAtOnce = 8;
const convictionsKept = 10;
/** A slow machine repeats a billion operations a second; the rest is for loading and waiting. */
const patienceMsLeast = 60_000;
const slowestFlops = 1e9;
const messageBytesMax = 64 << 20;

export class TrustCare {
  readonly #context: Context;
  readonly #needs: TrustNeeds;
  /** Hashes that are known to be stored, so that each is asked for once. */
  readonly #present = new Map<string, Set<string>>();
  readonly #inputs = new Map<string, readonly string[]>();

  constructor(context: Context, needs: TrustNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  // Moving the line

  /** The record of an interval that the line is about to pass, written before the line is. */
  async open(session: SessionRecord, records: VNodeRecords, span: Span, root: string): Promise<IntervalRecord> {
    const interval = await openInterval(this.#context, this.#needs, session, records, span, root);
    const { record } = await this.#context.mirror.update(key.interval(session.id, span.to), (current) =>
      current && current.turn >= interval.turn && current.stuck === undefined ? undefined : interval,
    );
    return record ?? interval;
  }

  /** Statements contradict each other: who is wrong is found out before the line moves on. */
  async stuck(session: SessionRecord, records: VNodeRecords, trouble: Trouble): Promise<void> {
    const { mirror, world, events } = this.#context;
    const name = key.interval(session.id, trouble.to);
    const known = mirror.get(name);
    if (known !== undefined && known.turn >= (session.turn ?? 0)) return;
    const interval = stuckInterval(session, records, trouble, world.clock.wallMs());
    const accused = await this.#accusedAtOnce(session, records, trouble);
    const [[vnode, audit] = ["", undefined]] = Object.entries(interval.audits);
    const opened = audit && accused ? { ...interval, audits: { [vnode]: { ...audit, ...accused } } } : interval;
    const { written } = await mirror.update(name, (current) =>
      current && current.turn >= opened.turn ? undefined : opened,
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

  // Audits

  /** Whatever can be decided about a session now; for whoever holds its lease. */
  async tend(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const session = mirror.get(key.session(id));
    if (session === undefined || !isChecked(session) || !isLive(session)) return;
    for (const interval of this.#intervals(id)) {
      if (interval.repair !== undefined) {
        if (await repair(this.#context, id, interval.repair)) {
          await this.#keep(interval);
          await this.#forget(interval);
        }
        return;
      }
      await this.#tendInterval(session, interval);
    }
    await this.#finish(id);
    await this.#endDoubts();
  }

  /** What put somebody in doubt may be void by now, because the session went back. */
  async #endDoubts(): Promise<void> {
    const doubted = this.#needs.standings.all().filter(({ barred }) => barred?.kind === "doubt");
    if (doubted.length === 0) return;
    const accused = this.#context.mirror
      .under(prefix.intervals)
      .flatMap(({ audits }) => Object.values(audits).flatMap((audit) => audit.accused));
    const open = new Set(accused.filter(({ verdict }) => verdict === undefined).map(({ pnode }) => pnode));
    for (const { pnode } of doubted) if (!open.has(pnode)) await this.#needs.standings.clear(pnode);
  }

  #intervals(id: SessionId): IntervalRecord[] {
    return this.#context.mirror.under(prefix.intervalsOf(id)).sort((a, b) => a.to - b.to);
  }

  async #tendInterval(session: SessionRecord, interval: IntervalRecord): Promise<void> {
    const { mirror } = this.#context;
    const open = Object.entries(interval.audits).filter(
      ([, audit]) => !isClosed(audit) || audit.accused.some(({ told }) => !told),
    );
    if (open.length === 0) return;
    const ready = new Set<string>();
    for (const [vnode, { ready: isReady, outcome, stated }] of open)
      if (!isReady && outcome === undefined && (await this.#inputsPresent(stated))) ready.add(vnode);
    let changed: [string, AuditRecord, AuditRecord][] = [];
    const { record, written } = await mirror.update(key.interval(session.id, interval.to), (current) => {
      changed = [];
      if (current === undefined || current.turn !== interval.turn || current.repair) return undefined;
      const audits = { ...current.audits };
      for (const [vnode] of open) {
        const before = current.audits[vnode];
        if (before === undefined) continue;
        const seen = ready.has(vnode) && !before.ready ? { ...before, ready: true } : before;
        const after = advanced(seen, this.#facts(session, current, vnode as VNodeId));
        if (after === before) continue;
        audits[vnode] = after;
        changed.push([vnode, before, after]);
      }
      return changed.length > 0 ? { ...current, audits } : undefined;
    });
    if (written)
      for (const [vnode, before, after] of changed) await this.#announce(session, interval, vnode, before, after);
    if (record !== undefined) await this.#tellFaults(session, record);
    if (written && changed.some(([, before, after]) => before.outcome === undefined && after.outcome !== undefined))
      await this.#tellDrawn(session.id);
  }

  #facts(session: SessionRecord, interval: IntervalRecord, vnode: VNodeId): AuditFacts {
    const { mirror, world } = this.#context;
    const flops = mirror.get(key.vnode(session.id, vnode))?.flops ?? 0;
    const { auditors } = this.#needs;
    return {
      nowWallMs: world.clock.wallMs(),
      assurance: session.policy.assurance ?? "none",
      openedWallMs: interval.openedWallMs,
      patienceMs: patienceMsLeast + ((interval.to - interval.from) * flops * 1_000) / slowestFlops,
      candidates: (except, trustedOnly) => auditors.candidates(session, vnode, interval.draw, except, trustedOnly),
      isHere: (pnode) => auditors.isHere(pnode),
      isOfClass: (pnode) => {
        const record = mirror.get(key.pnode(pnode));
        return record === undefined || isOfClass(record, session);
      },
    };
  }

  /** Standings follow what was found: right results count, wrong ones put their owner in doubt. */
  async #announce(
    session: SessionRecord,
    { from, to }: IntervalRecord,
    vnode: string,
    before: AuditRecord,
    after: AuditRecord,
  ): Promise<void> {
    const { standings } = this.#needs;
    const wallMs = this.#context.world.clock.wallMs();
    const where = `VNode ${vnode}, steps ${from} to ${to} of session ${session.id}`;
    const { outcome } = after;
    if (before.outcome !== undefined || outcome === undefined) return;
    const owners = after.stated.filter(({ statement }) => resultOf(statement) === outcome.result);
    const story = `${where}: ${outcome.kind}, recomputed by ${outcome.by === "trusted" ? "a trusted machine" : outcome.by}`;
    if (outcome.kind === "unchecked" || outcome.kind === "lost") await this.#due(after.stated, outcome.reason);
    else
      for (const { pnode } of owners)
        await standings.change(pnode, (standing) => ({
          ...withRight(standing, 1),
          audited: standing.audited + 1,
          due: Math.max(0, standing.due - 1),
          last: { wallMs, story },
        }));
    for (const task of after.tasks)
      if (task.role === "audit" && task.result === outcome.result)
        await standings.change(task.pnode, (standing) => ({ ...standing, audits: standing.audits + 1 }));
    for (const { pnode, verdict } of after.accused)
      if (verdict === undefined)
        await standings.doubt(pnode, `its result for ${where} is not what others come to: it is asked to repeat it`);
  }

  /** Somebody could not show what this machine was sent: its next intervals are checked for sure. */
  async #due(stated: readonly Stated[], reason: string): Promise<void> {
    if (!reason.startsWith("a sender")) return;
    for (const { pnode } of stated)
      await this.#needs.standings.change(pnode, (standing) => ({ ...standing, due: Math.max(standing.due, 5) }));
  }

  async #tellFaults(session: SessionRecord, interval: IntervalRecord): Promise<void> {
    const { mirror } = this.#context;
    const { standings } = this.#needs;
    const untold = Object.entries(interval.audits).flatMap(([vnode, { accused, outcome }]) =>
      accused.filter(({ verdict, told }) => verdict !== undefined && !told).map((one) => ({ vnode, one, outcome })),
    );
    for (const { vnode, one, outcome } of untold) {
      const { pnode, verdict, story = "" } = one;
      if (verdict === undefined) continue;
      if (verdict === "cleared") {
        await standings.clear(pnode);
        this.#context.events.emit("error", "session.class", `session ${session.id}: ${story}; nobody is blamed`, {
          session: session.id,
        });
      } else if (verdict === "class" && standings.of(pnode).excluded.includes(session.numericsClass))
        await standings.clear(pnode);
      else
        await standings.fault(
          pnode,
          {
            wallMs: outcome?.wallMs ?? 0,
            kind: verdict,
            after: standings.of(pnode).right,
            story: `in session ${session.id}, VNode ${vnode}, steps ${interval.from} to ${interval.to}, ${story}`,
            command: `dcnr audit ${session.id} ${vnode} ${interval.from}`,
          },
          session.numericsClass,
        );
    }
    const isWrong = Object.values(interval.audits).some(
      (audit) => (audit.outcome?.kind === "wrong" || audit.outcome?.kind === "lost") && isClosed(audit),
    );
    const isUndone = interval.stuck !== undefined && Object.values(interval.audits).every(isClosed);
    if (untold.length === 0 && !isWrong && !isUndone) return;
    const plan = isWrong || isUndone ? await this.#repairOf(session, interval) : undefined;
    await mirror.update(key.interval(session.id, interval.to), (current) => {
      if (current === undefined || current.turn !== interval.turn || current.repair) return undefined;
      const audits = Object.fromEntries(
        Object.entries(current.audits).map(([vnode, audit]) => [
          vnode,
          { ...audit, accused: audit.accused.map((one) => (one.verdict === undefined ? one : { ...one, told: true })) },
        ]),
      );
      return { ...current, audits, ...(plan ? { repair: plan } : {}) };
    });
  }

  async #repairOf(seen: SessionRecord, interval: IntervalRecord): Promise<IntervalRecord["repair"]> {
    const fresh = await readSession(this.#context, seen.id);
    if (fresh === undefined || (fresh.session.turn ?? 0) !== interval.turn) return undefined;
    const { session, records } = fresh;
    const accused = Object.values(interval.audits).flatMap((audit) => audit.accused);
    const suspects = new Set(
      accused.filter(({ verdict }) => verdict === "lie" || verdict === "equivocation").map(({ pnode }) => pnode),
    );
    const line = lineBefore(session, records, this.#intervals(session.id), interval.from, suspects);
    const isUndone = ([, { outcome }]: [string, AuditRecord]) => outcome?.kind === "wrong" || outcome?.kind === "lost";
    const [vnode, audit] = Object.entries(interval.audits).find(isUndone) ?? [""];
    const what = audit?.outcome?.kind === "lost" ? "inputs are gone, so nobody can check it:" : "result was wrong:";
    const because = interval.stuck ?? `${what} VNode ${vnode}, steps ${interval.from} to ${interval.to}`;
    return { line, turn: interval.turn + 1, because };
  }

  /** All messages that went in are stored. */
  async #inputsPresent(stated: readonly Stated[]): Promise<boolean> {
    for (const { statement } of stated) {
      const { inputs } = statement;
      const wanted = this.#inputs.get(inputs) ?? (await this.#inputHashes(statement));
      if (wanted === undefined) return false;
      this.#inputs.set(inputs, wanted);
      const present = this.#present.get(inputs) ?? new Set();
      this.#present.set(inputs, present);
      const missing = wanted.filter((hash) => !present.has(hash));
      await forEachAtOnce(missing, asksAtOnce, async (hash) => {
        const size = await this.#context.blobs.states.size(hash as Sha256);
        if (size !== undefined && size <= messageBytesMax) present.add(hash);
      });
      if (present.size < wanted.length) return false;
    }
    return true;
  }

  /** Undefined for a list that is not there or cannot be read: nobody can repeat what it is stated for. */
  async #inputHashes({ session, vnode, from, to, inputs }: Statement): Promise<readonly string[] | undefined> {
    const { aside, blobs } = this.#context;
    try {
      return await inputHashes(aside, await blobs.states.get(inputs), { session, vnode, from, to });
    } catch (thrown) {
      if (["not_found", "data_loss", "invalid_argument"].some((code) => hasCode(thrown, code as ErrorCode)))
        return undefined;
      throw thrown;
    }
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
          ? { gaveUp: `could not: ${failure.slice(0, 200)}` }
          : { result: resultOf(statement), after: statement.afterBytes > 0 ? statement.after : "", distance };
      const tasks = audit.tasks.with(at, { ...task, ...found });
      return { ...current, audits: { ...current.audits, [vnode]: { ...audit, tasks } } };
    });
  }

  // What is final

  async #finish(id: SessionId): Promise<void> {
    const { mirror, world, events } = this.#context;
    const session = mirror.get(key.session(id));
    if (session === undefined) return;
    const step = finalOf(session, this.#intervals(id));
    if (step.settled.length === 0) return;
    const root = step.settled.at(-1)?.root ?? "";
    const isDone = step.final === session.identity.steps;
    const { written } = await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current) || current.turn !== session.turn || current.final !== session.final)
        return undefined;
      const drawn = (current.drawn ?? []).filter(({ to }) => to > step.final);
      const finished = { ...current, final: step.final, certificate: { ...step.certificate, root }, drawn };
      return isDone
        ? { ...finished, status: "done" as const, reason: "", endedWallMs: world.clock.wallMs() }
        : finished;
    });
    if (!written) return;
    for (const interval of step.settled) {
      await this.#credit(interval);
      await this.#forget(interval);
    }
    if (isDone)
      events.emit("info", "session.done", `session ${id} is done after ${step.final} steps`, {
        session: id,
        step: step.final,
      });
  }

  /** Those whose intervals became final without having been repeated earn trust too, and whoever pays hears of all. */
  async #credit(interval: IntervalRecord): Promise<void> {
    this.#needs.onFinal(interval);
    const counts = new Map<PNodeId, number>();
    for (const [vnode, owner] of Object.entries(interval.owners))
      if (interval.audits[vnode]?.outcome?.kind !== "right") counts.set(owner, (counts.get(owner) ?? 0) + 1);
    for (const [pnode, count] of counts)
      await this.#needs.standings.change(pnode, (standing) => withRight(standing, count));
  }

  /** So that whoever doubts it can repeat it (dcnr audit): a few of each session, the newest. */
  async #keep(interval: IntervalRecord): Promise<void> {
    const { mirror } = this.#context;
    const audits = Object.fromEntries(Object.entries(interval.audits).filter(([, { accused }]) => accused.length > 0));
    const { session, to, turn } = interval;
    if (Object.keys(audits).length === 0) return;
    await mirror.update(key.conviction(session, to, turn), (current) =>
      current ? undefined : { ...interval, audits },
    );
    const known = mirror.under(prefix.convictionsOf(session)).sort((a, b) => a.openedWallMs - b.openedWallMs);
    for (const old of known.slice(0, -convictionsKept)) {
      await mirror.remove(key.conviction(session, old.to, old.turn), () => true);
      this.#needs.garbage.add(blobsOf(old));
    }
  }

  async #forget(interval: IntervalRecord): Promise<void> {
    const blobs: Sha256[] = [...blobsOf(interval)];
    for (const { stated } of Object.values(interval.audits))
      for (const { statement } of stated) {
        blobs.push(...((this.#inputs.get(statement.inputs) ?? []) as Sha256[]));
        this.#inputs.delete(statement.inputs);
        this.#present.delete(statement.inputs);
      }
    await this.#context.mirror.remove(
      key.interval(interval.session, interval.to),
      (current) => current.turn === interval.turn,
    );
    this.#needs.garbage.add(blobs);
  }

  /** The session's record says what is still needed, so that lines and this are told together. */
  async #tellDrawn(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current)) return undefined;
      const still = (current.drawn ?? []).filter(({ vnode, to }) => {
        const audit = mirror.get(key.interval(id, to))?.audits[vnode];
        return audit === undefined || isNeeded(audit);
      });
      const isNew = ({ vnode, to }: DrawnInterval) => !still.some((one) => one.vnode === vnode && one.to === to);
      const stuck = drawnIn(this.#intervals(id).filter((one) => one.stuck !== undefined && one.turn === current.turn));
      const next = [...still, ...stuck.filter(isNew)];
      return JSON.stringify(next) === JSON.stringify(current.drawn ?? []) ? undefined : { ...current, drawn: next };
    });
  }
}
