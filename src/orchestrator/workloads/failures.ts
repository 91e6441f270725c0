// VNodes that fail where they run. A fault of the machine is answered by another machine; a fault of the
// computation follows the VNode wherever it goes, and after a few PNodes the workload says so and stops. A PNode without
// room is left alone for a while; that says nothing about the VNode.

import type { PNodeId, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import { pnodeName } from "../records/names.ts";
import { key } from "../records/store-keys.ts";
import type { Member, VNodeRecord } from "../records/vnodes.ts";
import { called, isLive, kindOf } from "../records/workloads.ts";

const failuresMax = 3;
const refusalsMax = 8;
/** A PNode that refused a VNode for want of room is not asked again for so long. */
const refusalMs = 20_000;
/** The same of one that had not kept what others needed to check it: whoever only says that it lost that must not get the VNode back at once. */
const lapseMs = 300_000;

export interface VNodeFailure {
  readonly workload: WorkloadId;
  readonly vnode: VNodeId;
  readonly pnode: PNodeId;
  readonly epoch: number;
  readonly detail: string;
  /** `noRoom`: the PNode lends less than it takes. `lapsed`: it has not kept what others need. Neither says anything of the VNode. */
  readonly kind: "failed" | "noRoom" | "lapsed";
}

type Failure = VNodeRecord["failures"][number];

/** PNodes that a VNode should not go to now. */
export function avoided({ failures }: Pick<VNodeRecord, "failures">, nowWallMs: number): Set<PNodeId> {
  const counts = ({ refusedWallMs, isLapse }: Failure) =>
    refusedWallMs === undefined || Math.abs(nowWallMs - refusedWallMs) < (isLapse ? lapseMs : refusalMs);
  return new Set(failures.filter(counts).map(({ pnode }) => pnode));
}

/** What is left of failures when the VNode has come further: that somebody had not kept what others needed says nothing of its place in the run. */
export function lapsesOf({ failures }: Pick<VNodeRecord, "failures">): Failure[] {
  return failures.filter(({ isLapse }) => isLapse);
}

function added(failures: readonly Failure[], failure: Failure): Failure[] {
  const [refused, failed] = [true, false].map((kind) =>
    [...failures, failure].filter(({ refusedWallMs }) => (refusedWallMs !== undefined) === kind),
  ) as [Failure[], Failure[]];
  return [...refused.slice(-refusalsMax), ...failed.slice(-failuresMax)];
}

/** Takes the VNode from the PNode it failed on; the controller finds another. */
export async function noteFailure(context: Context, rooms: Rooms, failure: VNodeFailure): Promise<void> {
  const { mirror, events, world } = context;
  const { workload, vnode, pnode, epoch, detail, kind } = failure;
  const isPassing = kind !== "failed";
  const noted = {
    pnode,
    detail,
    ...(isPassing && { refusedWallMs: world.clock.wallMs() }),
    ...(kind === "lapsed" && { isLapse: true as const }),
  };
  let member: Member | undefined;
  const { record, written } = await mirror.update(key.vnode(workload, vnode), (current) => {
    member = current?.members.find((one) => one.pnode === pnode);
    if (!current || !member || epoch < member.since || epoch > current.epoch) return undefined;
    return {
      ...current,
      epoch: current.epoch + 1,
      members: current.members.filter((one) => one !== member),
      failures: added(current.failures, noted),
    };
  });
  if (!written || !record) return;
  if (member) await rooms.giveBack([member]);
  const about = { session: workload, vnode, pnode };
  const name = pnodeName(mirror, pnode);
  if (isPassing) {
    const why = kind === "noRoom" ? `has no room for VNode ${vnode}` : `loses VNode ${vnode}`;
    events.emit("warn", `vnode.${kind === "noRoom" ? "refused" : "lapsed"}`, `PNode ${name} ${why}: ${detail}`, about);
    context.tasks.after(kind === "lapsed" ? lapseMs : refusalMs, () => forgetRefusal(context, failure));
    return;
  }
  events.emit("error", "vnode.failed", `VNode ${vnode} failed on PNode ${name}: ${detail}`, about);
  if (record.failures.filter(({ refusedWallMs }) => refusedWallMs === undefined).length >= failuresMax)
    await failWorkload(context, workload, `VNode ${vnode} failed on ${failuresMax} PNodes, last with: ${detail}`);
}

/** Whoever waits for a place hears of it by the changed record. */
async function forgetRefusal({ mirror }: Context, { workload, vnode, pnode }: VNodeFailure): Promise<void> {
  await mirror.update(key.vnode(workload, vnode), (current) => {
    const left = current?.failures.filter((one) => one.pnode !== pnode || one.refusedWallMs === undefined);
    return current && left && left.length < current.failures.length ? { ...current, failures: left } : undefined;
  });
}

async function failWorkload(context: Context, id: WorkloadId, reason: string): Promise<void> {
  const { mirror, world, events } = context;
  const { written } = await mirror.update(key.workload(id), (current) =>
    current && isLive(current)
      ? { ...current, status: "failed" as const, reason, endedWallMs: world.clock.wallMs() }
      : undefined,
  );
  if (written) events.emit("error", `${kindOf(id)}.failed`, `${called(id)} failed: ${reason}`, { session: id });
}
