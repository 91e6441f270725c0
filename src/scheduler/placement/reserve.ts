// A fleet as it will be: with what was decided on it, or without what is there now. Decisions about it need no room to be claimed.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Fleet } from "./fleet.ts";
import type { Decision, PlacementPlan, Policy } from "./types.ts";

/** Fleet and policy as if those VNodes had no place. */
export function withoutThose(
  plan: PlacementPlan,
  fleet: Fleet,
  policy: Policy,
  vnodes: ReadonlySet<VNodeId>,
): [Fleet, Policy] {
  const free = fleet.copy();
  for (const { id, memoryBytes } of plan.vnodes)
    for (const pnode of vnodes.has(id) ? (policy.current.get(id) ?? []) : []) {
      const node = free.get(pnode);
      if (!node) continue;
      const hosted = (node.hosts.get(plan.workload) ?? 1) - 1;
      const hosts = new Map(node.hosts);
      if (hosted > 0) hosts.set(plan.workload, hosted);
      else hosts.delete(plan.workload);
      free.set({
        ...node,
        memoryFreeBytes: node.memoryFreeBytes + memoryBytes,
        gpusFree: node.gpusFree + (hosted > 0 ? 0 : policy.requirements.gpus),
        hosts,
      });
    }
  const current = new Map(Array.from(policy.current).filter(([id]) => !vnodes.has(id)));
  return [free, { ...policy, current }];
}

export function reserve(fleet: Fleet, plan: PlacementPlan, policy: Policy, decisions: readonly Decision[]): void {
  const memoryOf = new Map(plan.vnodes.map((vnode) => [vnode.id, vnode.memoryBytes]));
  for (const [pnode, own] of Map.groupBy(decisions, (decision): PNodeId => decision.pnode)) {
    const node = fleet.get(pnode);
    if (!node) continue;
    const memoryBytes = own.reduce((sum, { vnode }) => sum + (memoryOf.get(vnode) ?? 0), 0);
    const known = node.hosts.get(plan.workload) ?? 0;
    fleet.set({
      ...node,
      memoryFreeBytes: node.memoryFreeBytes - memoryBytes,
      gpusFree: node.gpusFree - (known > 0 ? 0 : policy.requirements.gpus),
      hosts: new Map(node.hosts).set(plan.workload, known + own.length),
    });
  }
}
