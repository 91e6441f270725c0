// What is kept of a VNode's work so that anybody can repeat it, and which of it a doubt is about: one step may be in an interval that is being checked now and in
// several in which somebody was found wrong before, stated by several owners, of which one may have lied and the others not.

import type { PNodeId } from "../../core/ids.ts";
import { entryOf } from "../../core/words/table.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Accused, IntervalRecord, Stated } from "../records/checking.ts";

export interface Doubted {
  readonly vnode: string;
  readonly step: number;
  /** Whose work; absent: somebody's who was found wrong, or anybody's. */
  readonly of?: PNodeId;
  /** The session's when it was done; absent: the newest. */
  readonly turn?: number;
}

/** What somebody came to. */
export interface KeptWork {
  readonly interval: IntervalRecord;
  readonly pnode: PNodeId;
  /** What it says that it began with: of whoever checked it, the owner's. */
  readonly stated: Stated;
  /** Of whoever checked it: its own (trust/statement.ts `resultOf`); absent: what is stated. */
  readonly checkedTo?: string;
}

export function keptWork(
  intervals: Iterable<IntervalRecord>,
  { vnode, step, of, turn }: Doubted,
): KeptWork | undefined {
  const near = Iterator.from(intervals)
    .filter(({ from, to }) => step >= from && step < to)
    .toArray()
    .filter((interval) => turn === undefined || interval.turn === turn)
    .sort((a, b) => b.turn - a.turn);
  const isOf = ({ pnode }: KeptWork) => of === undefined || pnode === of;
  return (
    near.flatMap((one) => doubtedIn(one, vnode)).find(isOf) ?? near.flatMap((one) => statedIn(one, vnode)).find(isOf)
  );
}

/** The command that repeats an interval; of somebody who was found wrong, where repeating shows it. */
export function auditCommand(
  { session, from, turn }: Pick<IntervalRecord, "session" | "from" | "turn">,
  vnode: string,
  accused?: Pick<Accused, "pnode" | "of">,
): string {
  const command = `dcnr audit ${session} ${vnode} ${from}`;
  if (accused === undefined) return command;
  // What was sent is another matter than what was stated, and that may well be right.
  return accused.of === "delivery" ? "" : `${command} --of ${accused.pnode} --turn ${turn}`;
}

function doubtedIn(interval: IntervalRecord, vnode: string): KeptWork[] {
  const { accused = [], stated = [] } = entryOf(interval.audits, vnode) ?? {};
  return accused.flatMap(({ pnode, of, result }): KeptWork[] => {
    const own = stated.filter((one) => one.pnode === pnode);
    const statement = own.find((one) => resultOf(one.statement) === result) ?? own[0];
    if (of === "statement" && statement !== undefined) return [{ interval, pnode, stated: statement }];
    const repeated = stated.find(({ apart }) => !apart);
    return of === "audit" && repeated !== undefined ? [{ interval, pnode, stated: repeated, checkedTo: result }] : [];
  });
}

function statedIn(interval: IntervalRecord, vnode: string): KeptWork[] {
  const { stated = [] } = entryOf(interval.audits, vnode) ?? {};
  return stated.map((one) => ({ interval, pnode: one.pnode, stated: one }));
}
