// The records of a workload's VNodes: made before anybody owns one, so that claims and owners have an epoch to stand on.

import type { PlacementPlan } from "../../scheduler/placement/types.ts";
import type { Context } from "../context.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { StoredState, VNodeRecord } from "../records/vnodes.ts";
import { isLive } from "../records/workloads.ts";
import { forEachAtOnce } from "../tasks.ts";

const writesAtOnce = 64;

/** Makes those that are missing, unless the workload has ended by now. */
export async function createVNodes(
  { mirror }: Context,
  workload: Pick<WorkloadRecord, "id">,
  plan: PlacementPlan,
  initial: Readonly<Record<string, StoredState>>,
): Promise<void> {
  const missing = plan.vnodes.filter((vnode) => !mirror.get(key.vnode(workload.id, vnode.id)));
  if (missing.length === 0) return;
  const fresh = await mirror.read(key.workload(workload.id));
  if (!fresh || !(isLive(fresh) || fresh.status === "created")) return;
  await forEachAtOnce(missing, writesAtOnce, ({ id, memoryBytes, flops }) =>
    mirror.update(key.vnode(workload.id, id), (current) => {
      if (current) return undefined;
      const state = initial[id];
      const durable: VNodeRecord["durable"] = state ? { "0": state } : {};
      const base = { session: workload.id, vnode: id, epoch: 0, members: [], stepHashes: {}, failures: [] };
      return { ...base, durable, memoryBytes, flops };
    }),
  );
}
