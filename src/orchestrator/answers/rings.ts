// Who makes up a replica now: the owners of the VNodes on the way to its head.

import type { PNodeId } from "../../core/ids.ts";
import { generationWay } from "../../network/graphs/generation.ts";
import type { Context } from "../context.ts";
import type { ReplicaRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Ring } from "./judging.ts";

/** Undefined while part of it has no owner. */
export async function ringOf(
  { mirror }: Context,
  compiled: Compiled,
  { id, identity }: ReplicaRecord,
): Promise<Ring | undefined> {
  const plan = await compiled.plan(identity.definition);
  const way = generationWay(plan);
  const order = plan.order.filter((vnode) => way.needed.has(vnode));
  const owners = new Map<string, { readonly pnode: PNodeId; readonly epoch: number }>();
  for (const vnode of order) {
    const { members, epoch } = mirror.get(key.vnode(id, vnode)) ?? { members: [], epoch: 0 };
    const [owner] = members;
    if (owner === undefined) return undefined;
    owners.set(vnode, { pnode: owner.pnode, epoch });
  }
  const takesInputs = plan.vnodes
    .filter(({ id: vnode, inputs }) => way.needed.has(vnode) && inputs.some(({ source }) => source === "inputs"))
    .map(({ id: vnode }) => vnode);
  return { ...way, order, takesInputs, owners };
}

export function machinesOf({ owners }: Ring): Set<PNodeId> {
  return new Set(Array.from(owners.values(), ({ pnode }) => pnode));
}

/** The same machines, without anything having moved in between. */
export function isSameRing(one: Ring, other: Ring | undefined): boolean {
  if (other === undefined) return false;
  return [...one.owners].every(([vnode, { pnode, epoch }]) => {
    const now = other.owners.get(vnode);
    return now?.pnode === pnode && now.epoch === epoch;
  });
}
