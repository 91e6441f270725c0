// What somebody who waits for room hears of those who have it: whose end is next.

import type { WorkloadId } from "../../core/ids.ts";
import type { Mirror } from "../records/mirror.ts";
import type { SessionRecord, WorkloadRecord } from "../records/sessions.ts";
import { prefix } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";

/** Empty if nobody has any. */
export function nextFree(mirror: Mirror, waiting: WorkloadId, kind: "gpus" | "memory"): string {
  const has = (other: WorkloadRecord) =>
    other.id !== waiting && isLive(other) && (kind === "memory" || other.requirements.gpus > 0);
  const stepsLeft = ({ identity, line }: SessionRecord) => identity.steps - line;
  const [session] = mirror
    .under(prefix.sessions)
    .filter(has)
    .sort((a, b) => stepsLeft(a) - stepsLeft(b));
  if (session) return `next frees when session ${session.id} ends`;
  const replica = mirror.under(prefix.replicas).find(has);
  return replica ? `next frees when model ${replica.model} is stopped` : "";
}
