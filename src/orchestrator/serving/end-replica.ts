// Ends a replica of a served model: the controller takes its owners and then all of its records away.

import type { ReplicaId } from "../../core/ids.ts";
import type { Mirror } from "../records/mirror.ts";
import { key } from "../records/store-keys.ts";

/** False if somebody did so before. */
export async function endReplica(mirror: Mirror, id: ReplicaId): Promise<boolean> {
  const { written } = await mirror.update(key.replica(id), (current) =>
    current && current.status !== "deleted" ? { ...current, status: "deleted" as const, reason: "" } : undefined,
  );
  return written;
}
