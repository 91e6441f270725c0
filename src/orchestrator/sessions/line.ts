// The recovery line and the step roots, as pure functions of the VNode records.

import { sha256 } from "../../core/hash.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { StepRecord } from "../records/vnodes.ts";
import type { VNodeRecords } from "../records/workloads.ts";

/** Newest step that is durable at every VNode: not the least of the newest ones, which may be durable nowhere else. */
export function recoveryLine(session: SessionRecord, records: VNodeRecords): number {
  const [first, ...others] = session.vnodes.map((id) => records.get(id));
  if (!first || others.includes(undefined)) return 0;
  const steps = Object.keys(first.durable)
    .map(Number)
    .sort((a, b) => b - a);
  const line = steps.find((step) => others.every((record) => record?.durable[String(step)] !== undefined));
  return line ?? 0;
}

/** Roots of those steps in (after, upTo] for which every VNode has told its hash. */
export function stepRoots(
  session: SessionRecord,
  records: VNodeRecords,
  after: number,
  upTo: number,
): StepRecord["roots"] {
  const roots: { step: number; root: Sha256 }[] = [];
  for (let step = after + 1; step <= upTo; step++) {
    const hashes = session.vnodes.map((id) => records.get(id)?.stepHashes[String(step)]);
    if (hashes.includes(undefined)) continue;
    roots.push({ step, root: stepRoot(hashes as string[]) });
  }
  return roots;
}

/** Of all VNodes' step hashes, in id order. */
export function stepRoot(hashesInIdOrder: readonly string[]): Sha256 {
  return sha256(...hashesInIdOrder);
}
