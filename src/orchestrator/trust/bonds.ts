// When a machine may take back the bond that it has laid down: once nothing that it has done can still be found wrong. Escrow alone does not tell, since work is
// paid ten intervals or more after it was done, and whoever lies is found in between.

import type { PNodeId } from "../../core/ids.ts";
import { isSettledForGood } from "../ledger/final.ts";
import type { IntervalRecord } from "../records/checking.ts";
import type { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { isChecked, vnodeRecordsOf } from "../records/workloads.ts";

/** Why a machine's bond stays where it is, for people; undefined where nothing holds it. */
export function bondHold(mirror: Mirror, pnode: PNodeId, nowWallMs: number): string | undefined {
  const { barred } = mirror.get(key.standing(pnode)) ?? {};
  if (barred !== undefined) return `it gets no work (${barred.reason})`;
  for (const session of mirror.under(prefix.sessions)) {
    if (!isChecked(session) || isSettledForGood(session, nowWallMs)) continue;
    for (const record of vnodeRecordsOf(mirror, session).values()) {
      const what = partIn(record, pnode, session);
      if (what !== undefined) return `it ${what} VNode ${record.vnode} of session ${session.id}, which is checked`;
    }
    for (const interval of mirror.under(prefix.intervalsOf(session.id)))
      if (isNamedIn(interval, pnode))
        return `steps ${interval.from} to ${interval.to} of session ${session.id}, in which it took part, are not final`;
  }
  return undefined;
}

function partIn(
  { members, work = {}, statements = {} }: VNodeRecord,
  pnode: PNodeId,
  { final = 0 }: Pick<SessionRecord, "final">,
): string | undefined {
  if (members.some((member) => member.pnode === pnode)) return "hosts";
  const worked = Object.entries(work).some(([step, pnodes]) => Number(step) > final && pnodes.includes(pnode));
  const stated = Object.values(statements).some((all) => all.some((one) => one.pnode === pnode));
  return worked || stated ? "has computed what is not final of" : undefined;
}

/** As an owner, or as one that repeated somebody's work. */
function isNamedIn({ owners, audits }: IntervalRecord, pnode: PNodeId): boolean {
  const named = Object.values(audits).flatMap(({ stated, tasks, accused }) => [...stated, ...tasks, ...accused]);
  return Object.values(owners).includes(pnode) || named.some((one) => one.pnode === pnode);
}
