// Moves running sessions to a fleet that has become better, when that pays (placement/rebalance.ts decides).

import { messageOf } from "../../core/errors.ts";
import type { PNodeId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { intervalStepsMost } from "../../network/checkpoints.ts";
import { inTurns, Pace } from "../../scheduler/placement/pace.ts";
import { shouldMove } from "../../scheduler/placement/rebalance.ts";
import type { PlacementPlan } from "../../scheduler/placement/types.ts";
import type { ClaimGroup } from "../../scheduler/room.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { claimId, type HeldClaim, type Rooms } from "../fleet/capacity/rooms.ts";
import { isOpen } from "../records/machines.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { vnodeRecordsOf } from "../records/workloads.ts";
import { forEachAtOnce } from "../tasks.ts";
import type { Care } from "../workloads/care.ts";
import type { Leases } from "../workloads/leases.ts";
import { claimFor } from "../workloads/placing.ts";
import { type ClaimedDecision, memberOf, policyFor } from "../workloads/recovery.ts";
import { isMixed } from "./rounds/lane-classes.ts";

const writesAtOnce = 64;

export interface RebalancingNeeds {
  readonly capacity: Capacity;
  readonly rooms: Rooms;
  readonly leases: Leases;
  readonly sessions: Care<SessionRecord>;
}

/** Replicas stay where they are: they hold caches, and moving one would make people wait. */
export async function rebalanceSessions(context: Context, needs: RebalancingNeeds): Promise<void> {
  for (const session of context.mirror.under(prefix.sessions)) {
    if (session.status !== "running" || !(await needs.leases.hold(session.id))) continue;
    try {
      await rebalance(context, needs, session, await needs.sessions.plan(session));
    } catch (thrown) {
      const { id } = session;
      context.world.log("warn", `rebalancing ${id} failed: ${messageOf(thrown)}`, { session: id });
    }
  }
}

/** Would a fresh placement be so much faster that moving pays? */
async function rebalance(
  context: Context,
  { capacity, rooms }: RebalancingNeeds,
  session: SessionRecord,
  plan: PlacementPlan,
): Promise<void> {
  // Lanes that have each a class change it between rounds, if that pays.
  if (isMixed(session) && plan.parts !== undefined) return;
  const records = vnodeRecordsOf(context.mirror, session);
  const outlook = {
    stepsLeft: session.identity.steps - session.line,
    replaySteps: intervalStepsMost({ ...session.identity, ...session.policy }),
  };
  const judging = shouldMove(plan, capacity.fleet, policyFor(context, session, records), outlook, new Pace());
  const moves = await inTurns(judging, () => sleep(context.world.timers, 0));
  if (!moves) return;
  const memoryOf = new Map(plan.vnodes.map((vnode) => [vnode.id, vnode.memoryBytes]));
  const decisions = moves.decisions.map((decision) => ({ ...decision, claim: claimId(context) }));
  const wanted = new Map<PNodeId, ClaimGroup[]>();
  for (const [pnode, own] of Map.groupBy(decisions, (decision) => decision.pnode)) {
    const claims = own.flatMap(({ vnode, claim }) => {
      const record = records.get(vnode);
      return record ? [[claim, claimFor(session, record, memoryOf.get(vnode) ?? 0)] as const] : [];
    });
    wanted.set(pnode, [{ workload: session.id, claims: Object.fromEntries(claims) }]);
  }
  const grants = await rooms.claim(wanted);
  const granted = decisions.flatMap((decision): ClaimedDecision[] => {
    const grant = grants.get(decision.pnode);
    return grant?.workloads.has(session.id) ? [{ ...decision, life: grant.life }] : [];
  });
  if (granted.length < decisions.length) {
    // Another session was faster: half a move is worth nothing.
    await rooms.giveBack(granted);
    return;
  }
  const message = `session ${session.id}: ${moves.reason}`;
  context.events.emit("info", "session.rebalanced", message, { session: session.id });
  const left: HeldClaim[] = [];
  await forEachAtOnce(granted, writesAtOnce, async (decision) => {
    left.push(...(await move(context, records.get(decision.vnode) as VNodeRecord, decision)));
  });
  await rooms.giveBack(left);
}

/** Only a VNode with one owner moves; further ones would be in the way, and make it needless. Returns unused claims. */
async function move({ mirror }: Context, seen: VNodeRecord, decision: ClaimedDecision): Promise<HeldClaim[]> {
  const pnode = mirror.get(key.pnode(decision.pnode));
  if (!pnode || !isOpen(pnode) || pnode.life !== decision.life) return [decision];
  const { record, written } = await mirror.update(key.vnode(seen.session, seen.vnode), (current) => {
    if (current?.epoch !== seen.epoch || current.members.length !== 1) return undefined;
    const epoch = current.epoch + 1;
    return { ...current, epoch, members: [memberOf(pnode, decision, epoch)] };
  });
  return written && record ? [...seen.members] : [decision];
}
