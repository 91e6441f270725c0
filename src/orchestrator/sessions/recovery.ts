// Gives every VNode of a session its owners: those that are lost, restarted or leaving are replaced by a
// conditional write that adds 1 to the epoch. Any orchestrator may do it; of two that race, one wins.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Decision, Placement, PlacementPlan, Policy } from "../../scheduler/placement/types.ts";
import { place } from "../../scheduler/placement.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity.ts";
import { pnodeName } from "../records/names.ts";
import {
  isOpen,
  key,
  type Member,
  type PNodeRecord,
  type SessionRecord,
  type VNodeRecord,
} from "../records/records.ts";
import { forEachAtOnce } from "../tasks.ts";
import type { VNodeRecords } from "./line.ts";

const writesAtOnce = 64;

/** The members that still are who they were when they were chosen, and whose owners still lend them. */
export function survivors(context: Context, record: VNodeRecord): readonly Member[] {
  return record.members.filter((member) => {
    const pnode = context.mirror.get<PNodeRecord>(key.pnode(member.pnode));
    return pnode !== undefined && isOpen(pnode) && pnode.incarnation === member.incarnation;
  });
}

export function needsPlacement(context: Context, session: SessionRecord, records: VNodeRecords): boolean {
  return session.vnodes.some((id) => {
    const record = records.get(id);
    return (
      !record ||
      record.members.length < session.policy.replicas ||
      survivors(context, record).length < record.members.length
    );
  });
}

export interface PolicyOptions {
  readonly nextFree?: Policy["nextFree"];
  /** As if these were gone. */
  readonly without?: ReadonlySet<PNodeId>;
}

export function policyFor(
  context: Context,
  session: SessionRecord,
  records: VNodeRecords,
  { nextFree, without }: PolicyOptions = {},
): Policy {
  const current = new Map<VNodeId, readonly PNodeId[]>();
  const avoid = new Map<VNodeId, ReadonlySet<PNodeId>>();
  const holdsData = new Set<PNodeId>();
  for (const record of records.values()) {
    const alive = survivors(context, record)
      .map((member) => member.pnode)
      .filter((pnode) => !without?.has(pnode));
    if (alive.length > 0) current.set(record.vnode, alive);
    for (const pnode of alive) holdsData.add(pnode);
    if (record.failures.length > 0) avoid.set(record.vnode, new Set(record.failures.map((failure) => failure.pnode)));
  }
  const abandoned = current.size === 0 && session.line === 0;
  return {
    // Sessions of builds before there were versions fit nobody.
    bits: session.identity.bits ?? 0,
    engine: session.identity.numerics,
    // Before the first checkpoint, and with nobody left who computed, another class may take over.
    numericsClass: abandoned ? "" : session.numericsClass,
    requirements: { ...session.requirements, architecture: "" },
    replicas: session.policy.replicas,
    ...(session.policy.spread ? { spread: session.policy.spread } : {}),
    current,
    avoid,
    holdsData,
    ...(nextFree ? { nextFree } : {}),
  };
}

/** Where a VNode failed is better than nowhere: it may have been the moment, and a few failures end the session. */
export function placeAnywhere(plan: PlacementPlan, { fleet }: Capacity, policy: Policy): Placement {
  const placement = place(plan, fleet, policy);
  if (!placement.unplaced.some(({ vnode }) => policy.avoid.has(vnode))) return placement;
  return place(plan, fleet, { ...policy, avoid: new Map() });
}

/** Decides and writes; returns what could not be placed. */
export async function replace(
  context: Context,
  capacity: Capacity,
  session: SessionRecord,
  records: VNodeRecords,
  plan: PlacementPlan,
  policy: Policy,
): Promise<Placement> {
  const placement = placeAnywhere(plan, capacity, policy);
  if (placement.decisions.length > 0 && !(await agreeOnNumerics(context, session, placement.numericsClass)))
    return { ...placement, decisions: [] };
  const decisions = new Map<VNodeId, Decision[]>();
  for (const decision of placement.decisions) {
    const list = decisions.get(decision.vnode);
    if (list) list.push(decision);
    else decisions.set(decision.vnode, [decision]);
  }
  const changed = Array.from(records.values()).filter(
    (record) => decisions.has(record.vnode) || survivors(context, record).length < record.members.length,
  );
  await forEachAtOnce(changed, writesAtOnce, (record) =>
    writeMembers(context, record, decisions.get(record.vnode) ?? [], session.policy.replicas),
  );
  return placement;
}

/** All owners compute in one class; the first placement fixes it. False if another orchestrator chose another. */
async function agreeOnNumerics(context: Context, session: SessionRecord, chosen: string): Promise<boolean> {
  if (session.numericsClass === chosen) return true;
  const { record } = await context.mirror.update<SessionRecord>(key.session(session.id), (current) =>
    current && current.numericsClass === session.numericsClass ? { ...current, numericsClass: chosen } : undefined,
  );
  return record?.numericsClass === chosen;
}

async function writeMembers(
  context: Context,
  seen: VNodeRecord,
  decisions: readonly Decision[],
  replicas: number,
): Promise<void> {
  const { mirror, events } = context;
  const { record, written } = await mirror.update<VNodeRecord>(key.vnode(seen.session, seen.vnode), (current) => {
    if (!current || current.epoch !== seen.epoch) return undefined;
    const epoch = current.epoch + 1;
    const alive = survivors(context, current);
    const chosen = decisions.flatMap((decision): Member[] => {
      const pnode = mirror.get<PNodeRecord>(key.pnode(decision.pnode));
      if (!pnode || !isOpen(pnode) || alive.some((member) => member.pnode === decision.pnode)) return [];
      return [{ pnode: decision.pnode, incarnation: pnode.incarnation, since: epoch, reason: decision.reason }];
    });
    // One that was lost when this was decided may be back, and then nobody has to take its place.
    const added = chosen.slice(0, Math.max(0, replicas - alive.length));
    if (added.length === 0 && alive.length === current.members.length) return undefined;
    return { ...current, epoch, members: [...alive, ...added] };
  });
  if (!written || !record) return;
  const gone = seen.members.filter((member) => !record.members.some((now) => now.pnode === member.pnode));
  for (const member of record.members) {
    if (member.since !== record.epoch) continue;
    const from = gone.shift()?.pnode;
    const way = `${from ? `from ${pnodeName(mirror, from)} ` : ""}to ${pnodeName(mirror, member.pnode)}`;
    events.emit("info", "vnode.placed", `VNode ${seen.vnode} goes ${way}: ${member.reason}`, {
      session: seen.session,
      vnode: seen.vnode,
      pnode: member.pnode,
      ...(from && { fromPnode: from }),
      step: Math.max(0, ...Object.keys(record.durable).map(Number)),
    });
  }
}

/** Takes all owners away: the session is suspended, done or failed. */
export async function release(context: Context, records: VNodeRecords): Promise<void> {
  const owned = Array.from(records.values()).filter((record) => record.members.length > 0);
  await forEachAtOnce(owned, writesAtOnce, (record) =>
    context.mirror.update<VNodeRecord>(key.vnode(record.session, record.vnode), (current) =>
      current && current.members.length > 0 ? { ...current, epoch: current.epoch + 1, members: [] } : undefined,
    ),
  );
}
