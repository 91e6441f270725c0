// Undoes what was built on a wrong result: the session goes back to a kept line before it, and everything above is computed
// again. Each step may be repeated, by whoever finds it half done; whatever was recorded in the new turn stays.

import type { PNodeId, SessionId, Sha256 } from "../../core/ids.ts";
import { listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { IntervalRecord, RepairPlan } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { StepRecord, VNodeRecord } from "../records/vnodes.ts";
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
 * `done` when everything above the repair's line is gone, and the session in its turn. `overtaken` when the session went back for
 * another reason meanwhile, and not as far as this takes.
 */
export async function repair(
  context: Context,
  id: SessionId,
  { line, turn, because, change = () => ({}) }: Back,
): Promise<"done" | "overtaken" | "later"> {
  const { mirror, events } = context;
  const fresh = await readSession(context, id);
  if (fresh === undefined || !isLive(fresh.session)) return "done";
  const { session, records } = fresh;
  if ((session.turn ?? 0) >= turn) return isBack(session, line, turn) ? "done" : "overtaken";
  for (const record of records.values())
    await mirror.update(key.vnode(id, record.vnode), (current) =>
      current ? withoutAbove(current, line, turn, session) : undefined,
    );
  await dropAbove(context, id, line, turn);
  const { written } = await mirror.update(key.session(id), (current) => {
    if (!current || !isLive(current) || (current.turn ?? 0) >= turn) return undefined;
    const { best, ...rest } = current;
    const drawn = (current.drawn ?? []).filter(({ to }) => to <= line);
    const kept = best !== undefined && best.step <= line ? { best } : {};
    return { ...rest, ...kept, line, lineBefore: line, turn, turnLine: line, drawn, alarm: line, ...change(current) };
  });
  if (written)
    events.emit("warn", "session.back", `session ${id} goes back from step ${session.line} to ${line}: ${because}`, {
      session: id,
      step: line,
    });
  const now = await mirror.read(key.session(id));
  return now === undefined || isBack(now, line, turn) ? "done" : "later";
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

/** Undefined if there is nothing to take away. */
function withoutAbove(
  record: VNodeRecord,
  line: number,
  turn: number,
  { initialStates = {} }: SessionRecord,
): VNodeRecord | undefined {
  const isVoid = (step: string, of: number | undefined) => Number(step) > line && (of ?? 0) < turn;
  const durable = Object.fromEntries(
    Object.entries(record.durable).filter(([step, state]) => !isVoid(step, state.turn)),
  );
  const initial = initialStates[record.vnode];
  if (line === 0 && initial !== undefined) durable["0"] ??= initial;
  const statements = Object.fromEntries(
    Object.entries(record.statements ?? {})
      .map(([step, all]) => [step, all.filter((one) => !isVoid(step, one.turn))] as const)
      .filter(([, all]) => all.length > 0),
  );
  if ((record.turn ?? 0) >= turn) return undefined;
  const work = Object.fromEntries(Object.entries(record.work ?? {}).filter(([step]) => Number(step) <= line));
  return { ...record, durable, statements, work, stepHashes: {}, turn };
}

/** Intervals and step roots of earlier turns. */
async function dropAbove({ mirror }: Context, id: SessionId, line: number, turn: number): Promise<void> {
  for (const interval of mirror.under(prefix.intervalsOf(id)))
    if (interval.to > line && interval.repair === undefined)
      await mirror.remove(key.interval(id, interval.to), (current) => current.turn < turn && !current.repair);
  for await (const { key: stored, version, record } of listItems<StepRecord>(mirror.store, prefix.stepsOf(id)))
    if (record.line > line) await mirror.store.delete(stored, version);
}

/** Blobs that only an interval's record names. */
export function blobsOf({ statements, audits }: IntervalRecord): Sha256[] {
  const lists = Object.values(audits).flatMap(({ stated }) =>
    stated.flatMap(({ statement }) => [statement.inputs, statement.outputs]),
  );
  return [...(statements === "" ? [] : [statements as Sha256]), ...lists];
}
