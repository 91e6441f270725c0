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
import { isLive, type VNodeRecords } from "../records/workloads.ts";
import { isKeptLine } from "./finality.ts";

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
  const doubtful = intervals
    .filter(({ to, stuck }) => to > final && stuck === undefined)
    .filter(({ owners, audits }) =>
      Object.entries(owners).some(([vnode, owner]) => suspects.has(owner) && audits[vnode]?.outcome?.kind !== "right"),
    )
    .map((interval) => interval.from);
  const bound = Math.min(from, session.line, ...doubtful);
  const isWhole = (step: number) => session.vnodes.every((id) => records.get(id)?.durable[String(step)] !== undefined);
  const steps = Object.keys(records.get(session.vnodes[0] as never)?.durable ?? {}).map(Number);
  const kept = steps.filter((step) => step <= bound && step >= final && isKept(session, step) && isWhole(step));
  return Math.max(final, ...kept);
}

function isKept(session: SessionRecord, step: number): boolean {
  return step === session.line || step === session.lineBefore || isKeptLine(session, step);
}

export interface Back extends Pick<RepairPlan, "line" | "turn" | "because"> {
  /** What else becomes true of the session in the same write. */
  readonly change?: (session: SessionRecord) => Partial<SessionRecord>;
}

/**
 * The session's own write comes first, and says everything: who moved the line meanwhile finds another turn and moves nothing. What
 * is left of the turns before is void from then on, and tidied afterwards. `overtaken` when the session went back for another reason meanwhile, and
 * not as far as this takes.
 */
export async function repair(context: Context, id: SessionId, back: Back): Promise<"done" | "overtaken" | "later"> {
  const { mirror, events } = context;
  const { line, turn, because, change = () => ({}) } = back;
  let from = 0;
  const { written } = await mirror.update(key.session(id), (current) => {
    if (!current || !isLive(current) || (current.turn ?? 0) >= turn) return undefined;
    from = current.line;
    const { best, ...rest } = current;
    const drawn = (current.drawn ?? []).filter(({ to }) => to <= line);
    const kept = best !== undefined && best.step <= line ? { best } : {};
    const voided = { turn, line };
    return { ...rest, ...kept, line, lineBefore: line, turn, turnLine: line, voided, drawn, ...change(current) };
  });
  if (written)
    events.emit("warn", "session.back", `session ${id} goes back from step ${from} to ${line}: ${because}`, {
      session: id,
      step: line,
    });
  const now = await mirror.read(key.session(id));
  if (now === undefined || now.status === "deleted") return "done";
  if ((now.turn ?? 0) < turn) return isLive(now) || now.status === "suspended" ? "later" : "done";
  if (!isBack(now, line, turn)) return "overtaken";
  await tidy(context, now);
  return "done";
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

/** The same repair for a session that went back for another reason meanwhile: what it wanted to go back to may be gone too. */
export function replanned(
  plan: RepairPlan,
  session: SessionRecord,
  records: VNodeRecords,
  intervals: readonly IntervalRecord[],
): RepairPlan {
  const line = lineBefore(session, records, intervals, plan.line, new Set());
  return { ...plan, line, turn: (session.turn ?? 0) + 1 };
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
