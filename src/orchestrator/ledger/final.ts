// Which work is final, and by whom: the one place that says what the ledger may pay for. A session whose results are checked
// says how far it is final; one that nobody checks is believed as far as it cannot go back any more: to the line before the recovery line, or to its end.

import type { PNodeId } from "../../core/ids.ts";
import { intervalStepsMost } from "../../network/checkpoints.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { ownersWanted, type VNodeRecords } from "../records/workloads.ts";
import { type Finality, type FinalWork, vestingIntervals } from "./settle.ts";

/** Damage makes a session go back to the line before; one that is over goes nowhere. One that is checked says it itself. */
export function finalStep(session: Pick<SessionRecord, "status" | "line" | "lineBefore" | "final">): number {
  const { status, line, lineBefore, final } = session;
  if (final !== undefined) return final;
  return status === "done" || status === "deleted" ? line : lineBefore;
}

/** A session that failed may be started again; whoever worked for it does not wait longer than this for what it has earned. */
const failedForGoodMs = 7 * 86_400_000;

/** Nothing that it has paid for is found wrong any more. */
export function isSettledForGood(
  { status, endedWallMs }: Pick<SessionRecord, "status" | "endedWallMs">,
  nowWallMs: number,
): boolean {
  if (status === "failed") return nowWallMs - endedWallMs >= failedForGoodMs;
  return status === "done" || status === "deleted";
}

export function finalityOf(session: SessionRecord, records: VNodeRecords, nowWallMs: number): Finality {
  const final = finalStep(session);
  return {
    final,
    work: session.vnodes.flatMap((vnode) => workOf(session, records.get(vnode), final)),
    vestingSteps: vestingIntervals * intervalStepsMost({ ...session.identity, ...session.policy }),
    ended: isSettledForGood(session, nowWallMs),
  };
}

/** Whoever brought the VNode to a stored state has computed the steps since the one before, alone or by replaying them. */
function workOf(session: SessionRecord, record: VNodeRecord | undefined, final: number): FinalWork[] {
  if (record === undefined) return [];
  const steps = Object.keys(record.work ?? {})
    .map(Number)
    .filter((step) => step <= final)
    .sort((a, b) => a - b);
  // A session that is older than the ledger is paid from here on.
  let from = session.settled ?? session.lineBefore;
  return steps.flatMap((to) => {
    const pnodes: readonly PNodeId[] = (record.work?.[String(to)] ?? []).slice(0, ownersWanted(session));
    const { vnode, flops } = record;
    const work = pnodes.map((pnode): FinalWork => ({ vnode, from, to, pnode, role: "worker", flops }));
    from = to;
    return work;
  });
}
