// What a session takes back when it goes back to an earlier line. One write says so, the session's own; whatever VNodes have recorded above that line
// before is void from then on, whether somebody has tidied their records yet or not. Everybody who asks what VNodes have stored asks here.

import type { SessionRecord } from "./sessions.ts";
import type { VNodeRecord } from "./vnodes.ts";

export type Voiding = Pick<SessionRecord, "voided" | "initialStates">;

/**
 * The VNode's record as it counts in the session's present turn; the same one if nothing in it is void. A record is never behind by two
 * goings-back that matter: the line passes a step only when every VNode has recorded that step since, and nobody goes back to above the line.
 */
export function inTurn(record: VNodeRecord, { voided, initialStates = {} }: Voiding): VNodeRecord {
  if (voided === undefined || (record.turn ?? 0) >= voided.turn) return record;
  const { line, turn } = voided;
  const isKept = (step: string, of = 0) => Number(step) <= line || of >= turn;
  const durable = Object.fromEntries(
    Object.entries(record.durable).filter(([step, state]) => isKept(step, state.turn)),
  );
  const initial = initialStates[record.vnode];
  if (line === 0 && initial !== undefined) durable["0"] ??= initial;
  const statements = Object.fromEntries(
    Object.entries(record.statements ?? {})
      .map(([step, all]) => [step, all.filter((one) => isKept(step, one.turn))] as const)
      .filter(([, all]) => all.length > 0),
  );
  const work = Object.fromEntries(Object.entries(record.work ?? {}).filter(([step]) => Number(step) <= line));
  return { ...record, durable, statements, work, stepHashes: {}, turn };
}
