// What follows for machines from what was found: right results count, wrong ones put their owner in doubt, and once it is known
// why somebody was wrong its standing says so, and the session is told how far it has to go back and who has lost work by that.

import type { PNodeId, SessionId } from "../../core/ids.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import { creditsOf } from "../ledger/accounts.ts";
import type { Share } from "../ledger/block.ts";
import type { AuditRecord, IntervalRecord } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import type { SessionRecord, SessionStatus } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { VNodeRecords } from "../records/workloads.ts";
import { isClosed } from "./disputes.ts";
import { intervalsOf } from "./intervals.ts";
import { lineBefore } from "./repair.ts";
import { withRight } from "./standing.ts";
import type { Standings } from "./standings.ts";

const over: ReadonlySet<SessionStatus> = new Set(["done", "failed", "deleted"]);

export class Verdicts {
  readonly #context: Context;
  readonly #standings: Standings;

  constructor(context: Context, standings: Standings) {
    this.#context = context;
    this.#standings = standings;
  }

  /** Standings follow what was found: right results count, wrong ones put their owner in doubt. */
  async announce(
    session: SessionRecord,
    { from, to }: IntervalRecord,
    vnode: string,
    before: AuditRecord,
    after: AuditRecord,
  ): Promise<void> {
    const standings = this.#standings;
    const wallMs = this.#context.world.clock.wallMs();
    const where = `VNode ${vnode}, steps ${from} to ${to} of session ${session.id}`;
    const { outcome } = after;
    if (before.outcome !== undefined || outcome === undefined) return;
    const owners = after.stated.filter(({ statement }) => resultOf(statement) === outcome.result);
    const story = `${where}: ${outcome.kind}, recomputed by ${outcome.by === "trusted" ? "a trusted machine" : outcome.by}`;
    if (outcome.kind === "unchecked" || outcome.kind === "lost") await this.#due(after);
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
  async #due({ stated, outcome }: AuditRecord): Promise<void> {
    if (outcome?.lapses === undefined) return;
    for (const { pnode } of stated)
      await this.#standings.change(pnode, (standing) => ({ ...standing, due: Math.max(standing.due, 5) }));
  }

  async tell(session: SessionRecord, interval: IntervalRecord): Promise<void> {
    const { mirror } = this.#context;
    const standings = this.#standings;
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
    const isUndone = mustBeUndone(interval);
    if (untold.length === 0 && !isUndone) return;
    const plan = isUndone ? await this.#repairOf(session, interval) : undefined;
    if (untold.length === 0 && plan === undefined) return;
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
    if (fresh === undefined) return undefined;
    const { session, records } = fresh;
    const { turn = 0 } = session;
    // An interval of an earlier turn still counts if the session went back to above it.
    const isKept = interval.stuck === undefined && interval.to <= session.line;
    if (turn < interval.turn || (turn > interval.turn && !isKept)) return undefined;
    const accused = Object.values(interval.audits).flatMap((audit) => audit.accused);
    const suspects = new Set(
      accused.filter(({ verdict }) => verdict === "lie" || verdict === "equivocation").map(({ pnode }) => pnode),
    );
    const line = lineBefore(session, records, intervalsOf(this.#context, session.id), interval.from, suspects);
    const isUndone = ([, { outcome }]: [string, AuditRecord]) => outcome?.kind === "wrong" || outcome?.kind === "lost";
    const [vnode, audit] = Object.entries(interval.audits).find(isUndone) ?? [""];
    const what = audit?.outcome?.kind === "lost" ? "inputs are gone, so nobody can check it:" : "result was wrong:";
    const because = interval.stuck ?? `${what} VNode ${vnode}, steps ${interval.from} to ${interval.to}`;
    const convicts = Array.from(suspects, (pnode) => ({
      pnode,
      bond: this.#standings.of(pnode).barred?.kind === "banned",
    }));
    const losses = convicts.length > 0 ? lossesAbove(session, records, interval, line, suspects) : [];
    const lapses = Object.values(interval.audits).flatMap(({ outcome }) => outcome?.lapses ?? []);
    return { line, turn: turn + 1, because, convicts, losses, lapses };
  }

  /** What put somebody in doubt may be void by now, because the session went back, or is over. */
  async endDoubts(): Promise<void> {
    const doubted = this.#standings.all().filter(({ barred }) => barred?.kind === "doubt");
    if (doubted.length === 0) return;
    const { mirror } = this.#context;
    // Nobody looks after the audits of a session that is over.
    const isOver = (id: SessionId) => over.has(mirror.get(key.session(id))?.status ?? "deleted");
    const accused = mirror
      .under(prefix.intervals)
      .filter(({ session }) => !isOver(session))
      .flatMap(({ audits }) => Object.values(audits).flatMap((audit) => audit.accused));
    const open = new Set(accused.filter(({ verdict }) => verdict === undefined).map(({ pnode }) => pnode));
    for (const { pnode } of doubted) if (!open.has(pnode)) await this.#standings.clear(pnode);
  }
}

/**
 * Whether the session has to go back before it: somebody was wrong there, or the line cannot pass and everything about it is found out. True until a repair is
 * planned, so that whoever comes after an orchestrator that died in between finds it undone.
 */
export function mustBeUndone({ stuck, audits, repair }: Pick<IntervalRecord, "stuck" | "audits" | "repair">): boolean {
  if (repair !== undefined) return false;
  const all = Object.values(audits);
  const isWrong = ({ outcome }: AuditRecord) => outcome?.kind === "wrong" || outcome?.kind === "lost";
  return all.some((audit) => isWrong(audit) && isClosed(audit)) || (stuck !== undefined && all.every(isClosed));
}

/** What others computed above the line, and repeated to find out: all of it has to be done again. */
function lossesAbove(
  session: SessionRecord,
  records: VNodeRecords,
  { from, to, audits }: IntervalRecord,
  line: number,
  convicts: ReadonlySet<PNodeId>,
): Share[] {
  const lost = new Map<PNodeId, number>();
  const add = (pnode: PNodeId, credits: number) => {
    if (!convicts.has(pnode) && credits > 0) lost.set(pnode, (lost.get(pnode) ?? 0) + credits);
  };
  for (const vnode of session.vnodes) {
    const { work = {}, flops = 0 } = records.get(vnode) ?? {};
    let before = line;
    const steps = Object.keys(work).map(Number);
    for (const step of steps.filter((one) => one > line).sort((a, b) => a - b)) {
      for (const pnode of work[String(step)] ?? []) add(pnode, creditsOf(flops, before, step));
      before = step;
    }
  }
  for (const [vnode, { tasks, outcome }] of Object.entries(audits))
    for (const { pnode, role, result } of tasks)
      if (role === "audit" && result === outcome?.result)
        add(pnode, creditsOf(records.get(vnode as never)?.flops ?? 0, from, to));
  return Array.from(lost, ([pnode, credits]) => ({ pnode, credits }));
}
