// What a queue world is made of and tells in the end, and the parts of it that a mutant may break.

import { decide } from "../../src/scheduler/decide.ts";
import type { Decisions, QueueView, Rules } from "../../src/scheduler/jobs.ts";
import type { FleetNode } from "../../src/scheduler/placement/types.ts";
import { claimed, type QuotaBook } from "../../src/scheduler/quota.ts";
import type { SimulatedJob } from "./workload.ts";

export interface Outage {
  readonly atMs: number;
  readonly backMs: number;
  readonly pnode: string;
}

/** Parts that a mutant may exchange for broken ones. */
export interface QueueParts {
  readonly decide: (view: QueueView, rules: Rules) => Decisions;
  readonly claimQuota: typeof claimed;
  /** Whether a PNode has the room that is claimed of it. */
  readonly hasRoom: (freeBytes: number, wantedBytes: number) => boolean;
  /** Places of how many VNodes a job gets. */
  readonly gang: (vnodes: number) => number;
  /** What is left of a job that gives way or loses its machine: the time since its last checkpoint is lost. */
  readonly leftMs: (timeMs: number, doneMs: number) => number;
}

export const soundParts: QueueParts = {
  decide,
  claimQuota: claimed,
  hasRoom: (free, wanted) => wanted <= free,
  gang: (vnodes) => vnodes,
  leftMs: (timeMs, doneMs) => timeMs - doneMs,
};

export interface QueueWorldOptions {
  readonly nodes: readonly FleetNode[];
  readonly jobs: readonly SimulatedJob[];
  readonly rules?: Partial<Rules>;
  /** By cohort. */
  readonly books?: ReadonlyMap<string, QuotaBook>;
  readonly outages?: readonly Outage[];
  readonly parts?: Partial<QueueParts>;
  /** Between passes at least. */
  readonly passMs?: number;
  /** Others decide too, on a picture that is a pass old. */
  readonly rivals?: number;
}

export interface QueueWorldReport {
  readonly violations: readonly string[];
  readonly waitsMs: ReadonlyMap<string, number>;
  readonly preemptions: number;
  readonly passes: number;
  readonly aborted: number;
  /** Share of the fleet in use until the last job was submitted. */
  readonly use: number;
}
