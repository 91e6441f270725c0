// Training sessions and replicas of served models, wherever it does not matter which of the two something is.

import { fail } from "../../core/errors.ts";
import { isReplicaId, parseWorkloadId, type VNodeId, type WorkloadId } from "../../core/ids.ts";
import type { Mirror } from "./mirror.ts";
import type { ReplicaRecord, SessionRecord, WorkloadRecord } from "./sessions.ts";
import { key, prefix } from "./store-keys.ts";
import { inTurn, type Voiding } from "./turns.ts";
import type { VNodeRecord } from "./vnodes.ts";

/** VNode records by id; a VNode without a record has stored nothing yet. */
export type VNodeRecords = ReadonlyMap<VNodeId, VNodeRecord>;

/** Its VNodes are to have owners. */
export function isLive({ status }: Pick<WorkloadRecord, "status">): boolean {
  return status === "running" || status === "waiting";
}

/** What is computed for it is signed, and some or all of it repeated. */
export function isChecked({ policy }: Pick<WorkloadRecord, "policy">): boolean {
  return policy.assurance !== undefined && policy.assurance !== "none";
}

/** Owners of each VNode; they compute the same. */
export function ownersWanted({ policy }: Pick<WorkloadRecord, "policy">): number {
  return policy.replicas ?? 1;
}

export function kindOf(id: WorkloadId): "session" | "replica" {
  return isReplicaId(id) ? "replica" : "session";
}

/** For sentences: "session mlp-…". */
export function called(id: WorkloadId): string {
  return `${kindOf(id)} ${id}`;
}

export function workloadsIn(mirror: Mirror): WorkloadRecord[] {
  return [...mirror.under(prefix.sessions), ...mirror.under(prefix.replicas)];
}

export function onWorkload(
  mirror: Mirror,
  listener: (now: WorkloadRecord | undefined, before: WorkloadRecord | undefined) => void,
): void {
  mirror.on("session", listener);
  mirror.on("replica", listener);
}

/** Without what the workload, if it is a session, has taken back. */
export function vnodeRecordsOf(
  mirror: Mirror,
  workload: Pick<WorkloadRecord, "id" | "vnodes"> & Partial<Voiding>,
): VNodeRecords {
  const records = new Map<VNodeId, VNodeRecord>();
  for (const vnode of workload.vnodes) {
    const record = mirror.get(key.vnode(workload.id, vnode));
    if (record) records.set(vnode, inTurn(record, workload));
  }
  return records;
}

/** The session or replica, or a sentence that there is none. */
export async function findWorkload(mirror: Mirror, text: string): Promise<SessionRecord | ReplicaRecord> {
  const id = parseWorkloadId(text);
  const known = mirror.get(key.workload(id)) ?? (await mirror.read(key.workload(id)));
  if (!known || known.status === "deleted")
    fail("not_found", `there is no ${called(id)}: dcnr session list and dcnr model list show what there is`);
  return known as SessionRecord | ReplicaRecord;
}

export function isReplica(record: SessionRecord | ReplicaRecord): record is ReplicaRecord {
  return isReplicaId(record.id);
}
