// VNodes that fail where they run. A fault of the machine is answered by another machine; a fault of the
// computation follows the VNode wherever it goes, and after a few PNodes the workload says so and stops.

import type { PNodeId, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Rooms } from "../fleet/rooms.ts";
import { pnodeName } from "../records/names.ts";
import { key, type Member } from "../records/records.ts";
import { called, isLive, kindOf } from "../records/workloads.ts";

const failuresMax = 3;

export interface VNodeFailure {
  readonly session: WorkloadId;
  readonly vnode: VNodeId;
  readonly pnode: PNodeId;
  readonly epoch: number;
  readonly detail: string;
}

/** Takes the VNode from the PNode it failed on; the controller finds another. */
export async function noteFailure(context: Context, rooms: Rooms, failure: VNodeFailure): Promise<void> {
  const { mirror, events } = context;
  const { session, vnode, pnode, epoch, detail } = failure;
  let member: Member | undefined;
  const { record, written } = await mirror.update(key.vnode(session, vnode), (current) => {
    member = current?.members.find((one) => one.pnode === pnode);
    if (!current || !member || epoch < member.since || epoch > current.epoch) return undefined;
    return {
      ...current,
      epoch: current.epoch + 1,
      members: current.members.filter((one) => one !== member),
      failures: [...current.failures, { pnode, detail }].slice(-failuresMax),
    };
  });
  if (!written || !record) return;
  if (member) await rooms.giveBack([member]);
  events.emit("error", "vnode.failed", `VNode ${vnode} failed on PNode ${pnodeName(mirror, pnode)}: ${detail}`, {
    session,
    vnode,
    pnode,
  });
  if (record.failures.length >= failuresMax)
    await failWorkload(context, session, `VNode ${vnode} failed on ${failuresMax} PNodes, last with: ${detail}`);
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
