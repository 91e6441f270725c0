// What follows for machines from what was found: right results count, wrong ones put their owner in doubt, and once it is known
// why somebody was wrong its standing says so, and the session is told how far it has to go back and who has lost work by that.

import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import type { AuditRecord, IntervalRecord } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import { pnodeName } from "../records/names.ts";
import type { SessionRecord, SessionStatus } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isClosed } from "./disputes.ts";
import { intervalsOf } from "./intervals.ts";
import { auditCommand } from "./kept-work.ts";
import { lossesAbove } from "./losses.ts";
import { lineBefore } from "./repair.ts";
import { wasLetGo } from "./silence.ts";
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
    const agreeing = after.tasks.filter(({ role, result }) => role === "audit" && result === outcome.result);
    const names = agreeing.map(({ pnode }) => pnodeName(this.#context.mirror, pnode));
    const whom = names.length > 0 ? ` (${names.join(", ")})` : "";
    const by = outcome.by === "trusted" ? "a trusted machine" : outcome.by;
    const story = `${where}: ${outcome.kind}, recomputed by ${by}${whom}`;
    if (outcome.kind === "unchecked" || outcome.kind === "lost") await this.#due(after);
    else
      for (const { pnode } of owners)
        await standings.change(pnode, (standing) => ({
          ...withRight(standing, 1),
          audited: standing.audited + 1,
          due: Math.max(0, standing.due - 1),
          last: { wallMs, story },
        }));
    for (const { pnode } of agreeing)
      await standings.change(pnode, (standing) => ({ ...standing, audits: standing.audits + 1 }));
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
            doneWallMs: interval.openedWallMs,
            story: `in session ${session.id}, VNode ${vnode}, steps ${interval.from} to ${interval.to}, ${story}`,
            command: auditCommand(interval, vnode, one),
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
    const losses = lossesAbove(session, records, interval, line, suspects);
    const lapses = [
      ...Object.values(interval.audits).flatMap(({ outcome }) => outcome?.lapses ?? []),
      ...atOdds(session, interval),
    ];
    const { final = 0 } = session;
    return { line, turn: turn + 1, because, final, convicts, losses, lapses };
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

/**
 * Owners at both ends of a seam that does not fit, where repeating both found nobody wrong and the session has gone back to this very line before: one of
 * them lists, or sends, what it does not state, and would do so for ever. Nobody can tell which of the two, so nobody is blamed, and neither goes on here.
 */
export function atOdds(
  session: Pick<SessionRecord, "line" | "turnLine" | "status" | "restarts" | "final">,
  interval: Pick<IntervalRecord, "to" | "stuck" | "audits" | "restarts">,
): { readonly pnode: PNodeId; readonly vnode: VNodeId }[] {
  const { stuck, audits } = interval;
  const all = Object.entries(audits);
  const isExplained = ({ outcome, accused }: AuditRecord) => accused.length > 0 || (outcome?.lapses ?? []).length > 0;
  if (stuck === undefined || session.turnLine !== session.line || wasLetGo(session, interval)) return [];
  // No two of them contradict each other where what was final comes out otherwise.
  if (interval.to <= (session.final ?? 0)) return [];
  if (all.some(([, audit]) => isExplained(audit))) return [];
  return all.flatMap(([vnode, { stated }]) => stated.map(({ pnode }) => ({ pnode, vnode: vnode as VNodeId })));
}
