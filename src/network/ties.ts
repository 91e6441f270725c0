// VNodes that share weights, directly or by others: as a rule they stand on one machine, since whole tables pass between them in every step.

import type { VNodeId } from "../core/ids.ts";

interface Edge {
  readonly kind: string;
  readonly from: VNodeId;
  readonly to: VNodeId;
}

/** By VNode, all that share weights with it, itself included, in the order of their names; VNodes that share none are absent. One list for all of a group. */
export function tiedGroups(edges: readonly Edge[]): ReadonlyMap<VNodeId, readonly VNodeId[]> {
  const groups = new Map<VNodeId, Set<VNodeId>>();
  for (const { kind, from, to } of edges) {
    if (kind !== "tie") continue;
    const joined = new Set([from, to].flatMap((one) => [one, ...(groups.get(one) ?? [])]));
    for (const one of joined) groups.set(one, joined);
  }
  const sorted = new Map(Array.from(new Set(groups.values()), (group) => [group, [...group].sort()]));
  return new Map(Array.from(groups, ([vnode, group]) => [vnode, sorted.get(group) as VNodeId[]]));
}
