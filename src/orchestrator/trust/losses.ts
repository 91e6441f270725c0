// What others lose when a session goes back because somebody lied: the work that has to be done again, and was not paid. Convicts make it
// good out of what they lose (ledger/settle.ts).

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { creditsOf } from "../ledger/accounts.ts";
import type { Share } from "../ledger/block.ts";
import { sumsOf } from "../ledger/losses.ts";
import type { IntervalRecord } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { ownersWanted, type VNodeRecords } from "../records/workloads.ts";

/** What they computed above the line, as far as it would have been paid, and repeated to find out; none if nobody lied. */
export function lossesAbove(
  session: Pick<SessionRecord, "vnodes" | "policy" | "final">,
  records: VNodeRecords,
  { from, to, audits }: Pick<IntervalRecord, "from" | "to" | "audits">,
  line: number,
  convicts: ReadonlySet<PNodeId>,
): Share[] {
  if (convicts.size === 0) return [];
  // What is final was paid, and is not lost though its states were.
  const paid = Math.max(line, session.final ?? 0);
  const worked = session.vnodes.flatMap((vnode) => {
    const { work = {}, flops = 0 } = records.get(vnode) ?? {};
    const steps = Object.keys(work).map(Number);
    let before = paid;
    return steps
      .filter((step) => step > paid)
      .sort((a, b) => a - b)
      .flatMap((step) => {
        const credits = creditsOf(flops, before, step);
        before = step;
        return (work[String(step)] ?? []).slice(0, ownersWanted(session)).map((pnode) => ({ pnode, credits }));
      });
  });
  const repeated = Object.entries(audits).flatMap(([vnode, { tasks, outcome }]) =>
    tasks
      .filter(({ role, result }) => role === "audit" && result !== undefined && result === outcome?.result)
      .map(({ pnode }) => ({ pnode, credits: creditsOf(records.get(vnode as VNodeId)?.flops ?? 0, from, to) })),
  );
  return Array.from(sumsOf([...worked, ...repeated]), ([pnode, credits]) => ({ pnode, credits })).filter(
    ({ pnode, credits }) => !convicts.has(pnode) && credits > 0,
  );
}
