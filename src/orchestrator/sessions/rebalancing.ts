// Moves a running session to a fleet that has become better, when that pays (placement/rebalance.ts decides).

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { shouldMove } from "../../scheduler/placement/rebalance.ts";
import type { PlacementPlan } from "../../scheduler/placement/types.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity.ts";
import { isOpen, key, type PNodeRecord, type SessionRecord, type VNodeRecord } from "../records/records.ts";
import { forEachAtOnce } from "../tasks.ts";
import type { VNodeRecords } from "./line.ts";
import { policyFor } from "./recovery.ts";

const writesAtOnce = 64;

export async function rebalance(
  context: Context,
  capacity: Capacity,
  session: SessionRecord,
  records: VNodeRecords,
  plan: PlacementPlan,
): Promise<void> {
  const moves = shouldMove(plan, capacity.fleet, policyFor(context, session, records), {
    stepsLeft: session.identity.steps - session.line,
    replaySteps: session.policy.checkpointEvery,
  });
  if (!moves) return;
  const message = `session ${session.id}: ${moves.reason}`;
  context.events.emit("info", "session.rebalanced", message, { session: session.id });
  await forEachAtOnce(moves.decisions, writesAtOnce, (decision) => move(context, session, decision));
}

/** Only a VNode with one owner moves; its replicas would be in the way, and make it needless. */
async function move(
  { mirror }: Context,
  session: SessionRecord,
  decision: { readonly vnode: VNodeId; readonly pnode: PNodeId; readonly reason: string },
): Promise<void> {
  const pnode = mirror.get<PNodeRecord>(key.pnode(decision.pnode));
  if (!pnode || !isOpen(pnode)) return;
  const { incarnation } = pnode;
  await mirror.update<VNodeRecord>(key.vnode(session.id, decision.vnode), (current) => {
    if (current?.members.length !== 1 || current.members[0]?.pnode === decision.pnode) return undefined;
    const epoch = current.epoch + 1;
    const member = { pnode: decision.pnode, incarnation, since: epoch, reason: decision.reason };
    return { ...current, epoch, members: [member] };
  });
}
