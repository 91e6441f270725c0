// Gives every VNode of a workload its owners: those that are lost, restarted or leaving are replaced by a
// conditional write that adds 1 to the epoch. Any orchestrator may do it; of two that race, one wins.

import { isReplicaId, type PNodeId, type VNodeId } from "../../core/ids.ts";
import type { SessionRequirements } from "../../network/settings/session.ts";
import type { Decision, Policy, Requirements } from "../../scheduler/placement/types.ts";
import type { Context } from "../context.ts";
import type { HeldClaim, Rooms } from "../fleet/capacity/rooms.ts";
import { isOpen, type PNodeRecord } from "../records/machines.ts";
import { pnodeName } from "../records/names.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Member, VNodeRecord } from "../records/vnodes.ts";
import { ownersWanted, type VNodeRecords } from "../records/workloads.ts";
import { forEachAtOnce } from "../tasks.ts";
import { avoided, lapsesOf } from "./failures.ts";

const writesAtOnce = 64;

/** A decision for which there is room: the claim is in the PNode's room record. */
export interface ClaimedDecision extends Decision {
  readonly claim: string;
  /** The PNode's when it was claimed: restarted since, it has forgotten the claim. */
  readonly life: number;
}

/** The members that still are who they were when they were chosen, whose owners still lend them, and who compute what the rest of their class does. */
export function survivors({ mirror }: Context, record: VNodeRecord): readonly Member[] {
  const { numericsClass = "" } = mirror.get(key.workload(record.session)) ?? {};
  return record.members.filter((member) => {
    const pnode = mirror.get(key.pnode(member.pnode));
    if (pnode === undefined || !isOpen(pnode) || pnode.life !== member.life) return false;
    return !pnode.excluded?.includes(member.class ?? numericsClass);
  });
}

export function needsPlacement(context: Context, workload: WorkloadRecord, records: VNodeRecords): boolean {
  return workload.vnodes.some((id) => {
    const record = records.get(id);
    return (
      !record ||
      record.members.length < ownersWanted(workload) ||
      survivors(context, record).length < record.members.length
    );
  });
}

/** Records of earlier releases name no provider. */
export function constraintsOf({ provider = "", ...rest }: SessionRequirements): Requirements {
  return { ...rest, provider, architecture: "" };
}

export interface PolicyOptions {
  readonly nextFree?: Policy["nextFree"];
  /** As if these were gone. */
  readonly without?: ReadonlySet<PNodeId>;
  /** Of a session in parts that have each their class: those that keep to one. */
  readonly classes?: Policy["classes"];
}

export function policyFor(
  context: Context,
  workload: WorkloadRecord,
  records: VNodeRecords,
  { nextFree, without, classes }: PolicyOptions = {},
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
    if (record.failures.length > 0) avoid.set(record.vnode, avoided(record, context.world.clock.wallMs()));
  }
  avoidLapsed(context, records, avoid);
  return {
    // Sessions of builds before there were versions fit nobody.
    bits: workload.identity.bits ?? 0,
    ...(isReplicaId(workload.id) && { answers: true as const }),
    engine: workload.identity.numerics,
    // Chosen once: states of the first class may be durable at some VNodes before there is a line, or become so any time.
    numericsClass: workload.numericsClass,
    ...(classes ? { classes } : {}),
    requirements: constraintsOf(workload.requirements),
    ...checkedBy(workload),
    copies: ownersWanted(workload),
    ...(workload.policy.spread ? { spread: workload.policy.spread } : {}),
    current,
    avoid,
    holdsData,
    ...(nextFree ? { nextFree } : {}),
  };
}

function checkedBy({ policy: { assurance = "none" } }: WorkloadRecord): Pick<Policy, "checked"> {
  return assurance === "none" ? {} : { checked: assurance };
}

/** Who has not stored what others need to check a neighbour's work hosts nothing of that session, not only not that VNode. */
function avoidLapsed({ world }: Context, records: VNodeRecords, avoid: Map<VNodeId, ReadonlySet<PNodeId>>): void {
  const nowWallMs = world.clock.wallMs();
  const lapsed = new Set(
    [...records.values()].flatMap((record) => [...avoided({ failures: lapsesOf(record) }, nowWallMs)]),
  );
  if (lapsed.size > 0)
    for (const { vnode } of records.values()) avoid.set(vnode, new Set([...(avoid.get(vnode) ?? []), ...lapsed]));
}

/** Writes the owners that were decided, without those that are gone; room that nobody stands on is given back. */
export async function writeOwners(
  context: Context,
  rooms: Rooms,
  workload: WorkloadRecord,
  records: VNodeRecords,
  decisions: readonly ClaimedDecision[],
): Promise<void> {
  const byVNode = Map.groupBy(decisions, ({ vnode }) => vnode);
  const changed = Array.from(records.values()).filter(
    (record) => byVNode.has(record.vnode) || survivors(context, record).length < record.members.length,
  );
  const left: HeldClaim[] = [];
  await forEachAtOnce(changed, writesAtOnce, async (record) => {
    const own = byVNode.get(record.vnode) ?? [];
    left.push(...(await writeMembers(context, record, own, ownersWanted(workload))));
  });
  await rooms.giveBack(left);
}

/** All owners compute in one class; the first placement fixes it. False if another orchestrator chose another. */
export async function agreeOnNumerics(context: Context, workload: WorkloadRecord, chosen: string): Promise<boolean> {
  if (workload.numericsClass === chosen) return true;
  const { record } = await context.mirror.update(key.workload(workload.id), (current) =>
    current && current.numericsClass === workload.numericsClass ? { ...current, numericsClass: chosen } : undefined,
  );
  return record?.numericsClass === chosen;
}

/** Returns the claims that nobody stands on afterwards. */
export async function writeMembers(
  context: Context,
  seen: VNodeRecord,
  decisions: readonly ClaimedDecision[],
  owners: number,
): Promise<HeldClaim[]> {
  const { mirror } = context;
  const { record, written } = await mirror.update(key.vnode(seen.session, seen.vnode), (current) => {
    if (!current || current.epoch !== seen.epoch) return undefined;
    const epoch = current.epoch + 1;
    const alive = survivors(context, current);
    const chosen = decisions.flatMap((decision): Member[] => {
      const pnode = mirror.get(key.pnode(decision.pnode));
      if (!pnode || !isOpen(pnode) || pnode.life !== decision.life) return [];
      if (alive.some((member) => member.pnode === decision.pnode)) return [];
      return [memberOf(pnode, decision, epoch)];
    });
    // One that was lost when this was decided may be back, and then nobody has to take its place.
    const added = chosen.slice(0, Math.max(0, owners - alive.length));
    if (added.length === 0 && alive.length === current.members.length) return undefined;
    return { ...current, epoch, members: [...alive, ...added] };
  });
  if (written && record) announce(context, seen, record);
  const held = new Set(record?.members.map(({ claim }) => claim));
  // Unless it was written here, whoever replaced the members that were seen gives their claims back.
  return [...decisions, ...(written ? seen.members : [])].filter(({ claim }) => !held.has(claim));
}

export function memberOf({ id, incarnation, life }: PNodeRecord, decision: ClaimedDecision, since: number): Member {
  const { claim, reason, class: own } = decision;
  return { pnode: id, incarnation, life, since, claim, reason, ...(own && { class: own }) };
}

function announce({ mirror, events }: Context, seen: VNodeRecord, record: VNodeRecord): void {
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

/** Takes all owners away and gives their room back: the workload is suspended, done or failed. */
export async function release(context: Context, rooms: Rooms, records: VNodeRecords): Promise<void> {
  const owned = Array.from(records.values()).filter((record) => record.members.length > 0);
  const left: HeldClaim[] = [];
  await forEachAtOnce(owned, writesAtOnce, async (record) => {
    let released: readonly Member[] = [];
    await context.mirror.update(key.vnode(record.session, record.vnode), (current) => {
      released = current?.members ?? [];
      return current && released.length > 0 ? { ...current, epoch: current.epoch + 1, members: [] } : undefined;
    });
    left.push(...released);
  });
  await rooms.giveBack(left);
}
