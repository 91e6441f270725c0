// Undoes what was built on a wrong result: the session goes back to a kept line before it, and everything above is computed
// again. May be repeated, by whoever finds it half done; whatever was recorded in the new turn stays.

import type { PNodeId, SessionId, Sha256 } from "../../core/ids.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { IntervalRecord, RepairPlan } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { inTurn } from "../records/turns.ts";
import type { StepRecord } from "../records/vnodes.ts";
import { isChecked, isLive, type VNodeRecords } from "../records/workloads.ts";
import { withBests } from "../sessions/bests.ts";
import { firstDoubtful, isKeptLine } from "./finality.ts";
import { lossesAbove } from "./losses.ts";

/**
 * The newest line at or below `from` that every VNode still has. `suspects`: whose unchecked intervals are not believed
 * either, so that the session goes back before the first of them.
 */
export function lineBefore(
  session: SessionRecord,
  records: VNodeRecords,
  intervals: readonly IntervalRecord[],
  from: number,
  suspects: ReadonlySet<PNodeId>,
): number {
  const { final = 0 } = session;
  const bound = Math.min(from, session.line, firstDoubtful(intervals, final, suspects));
  const isWhole = (step: number) => session.vnodes.every((id) => records.get(id)?.durable[String(step)] !== undefined);
  const steps = Object.keys(records.get(session.vnodes[0] as never)?.durable ?? {}).map(Number);
  const kept = steps.filter((step) => step <= bound && step >= final && isKept(session, step) && isWhole(step));
  // While lost states below what is final are computed again, the line is below it: nobody goes forward to what is not there.
  return Math.max(Math.min(final, session.line), ...kept);
}

function isKept(session: SessionRecord, step: number): boolean {
  return step === session.line || step === session.lineBefore || isKeptLine(session, step);
}

export interface Back extends Pick<RepairPlan, "line" | "turn" | "because" | "final"> {
  /** What else becomes true of the session in the same write. */
  readonly change?: (session: SessionRecord) => Partial<SessionRecord>;
}

/**
 * The session's own write comes first, and says everything: who moved the line meanwhile finds another turn and moves nothing. What
 * is left of the turns before is void from then on, and tidied afterwards. `overtaken` when the session went back for another reason meanwhile, and
 * not as far as this takes; or when more became final than was when this was planned: below that nothing could be computed again that comes to
 * another root than the certified one, so whoever went there to undo a lie would go back for ever.
 */
export async function repair(context: Context, id: SessionId, back: Back): Promise<"done" | "overtaken" | "later"> {
  const { mirror, events } = context;
  const { line, turn, because, final, change = () => ({}) } = back;
  const isFinalSince = (current: SessionRecord) => final !== undefined && (current.final ?? 0) > Math.max(final, line);
  let from = 0;
  const { written } = await mirror.update(key.session(id), (current) => {
    if (!current || !isLive(current) || (current.turn ?? 0) >= turn || isFinalSince(current)) return undefined;
    from = current.line;
    const drawn = (current.drawn ?? []).filter(({ to }) => to <= line);
    const voided = { turn, line };
    const back = { ...current, line, lineBefore: line, turn, turnLine: line, voided, drawn, ...change(current) };
    return isChecked(current) ? withBests(back) : back;
  });
  if (written)
    events.emit("warn", "session.back", `session ${id} goes back from step ${from} to ${line}: ${because}`, {
      session: id,
      step: line,
    });
  const now = await mirror.read(key.session(id));
  if (now === undefined || now.status === "deleted") return "done";
  if ((now.turn ?? 0) < turn && isLive(now) && isFinalSince(now)) return "overtaken";
  if ((now.turn ?? 0) < turn) return isLive(now) || now.status === "suspended" ? "later" : "done";
  if (!isBack(now, line, turn)) return "overtaken";
  await tidy(context, now);
  return "done";
}

/** What a session that goes back because somebody was wrong remembers of it. */
export function alarmed(
  { liars = 0 }: Pick<SessionRecord, "liars">,
  { line, convicts = [] }: Pick<RepairPlan, "line" | "convicts">,
): Pick<SessionRecord, "alarm" | "liars"> {
  const known = liars + convicts.length;
  return { alarm: line, ...(known > 0 ? { liars: known } : {}) };
}

/** Takes away what is void; whoever reads it meanwhile knows that it is. */
async function tidy(context: Context, session: SessionRecord): Promise<void> {
  const { mirror } = context;
  const { id, voided, final = 0 } = session;
  if (voided === undefined) return;
  for (const vnode of session.vnodes)
    await mirror.update(key.vnode(id, vnode), (current) => {
      const counted = current && inTurn(current, session);
      return counted === current ? undefined : counted;
    });
  await dropAbove(context, id, Math.max(voided.line, final), voided.turn);
}

/** It went back as far, in that turn or in one after it: whatever was wrong is gone. */
function isBack({ turn: now = 0, turnLine = 0 }: SessionRecord, line: number, turn: number): boolean {
  return now >= turn && turnLine <= line;
}

/**
 * The same repair for a session that went back for another reason meanwhile: what it wanted to go back to may be gone too, and what others had lost by it is
 * lost already.
 */
export function replanned(
  plan: RepairPlan,
  interval: Pick<IntervalRecord, "from" | "to" | "audits">,
  session: SessionRecord,
  records: VNodeRecords,
  intervals: readonly IntervalRecord[],
): RepairPlan {
  const line = lineBefore(session, records, intervals, plan.line, new Set());
  const convicts = new Set(plan.convicts?.map(({ pnode }) => pnode));
  const losses = lossesAbove(session, records, interval, line, convicts);
  return { ...plan, line, turn: (session.turn ?? 0) + 1, final: session.final ?? 0, losses };
}

/** Intervals and step roots of earlier turns. */
async function dropAbove({ mirror }: Context, id: SessionId, line: number, turn: number): Promise<void> {
  for (const interval of mirror.under(prefix.intervalsOf(id)))
    if (interval.to > line && interval.repair === undefined)
      await mirror.remove(key.interval(id, interval.to), (current) => current.turn < turn && !current.repair);
  for await (const { key: stored, version, record } of listItems<StepRecord>(mirror.store, prefix.stepsOf(id)))
    if (record.line > line && (record.turn ?? 0) < turn) await mirror.store.delete(stored, version);
}

/** Blobs that only an interval's record names. */
export function blobsOf({ statements, audits }: IntervalRecord): Sha256[] {
  const lists = Object.values(audits).flatMap(({ stated }) =>
    stated.flatMap(({ statement }) => [statement.inputs, statement.outputs]),
  );
  return [...(statements === "" ? [] : [statements as Sha256]), ...lists];
}
