// What the queue's pure functions speak of: jobs that wait, jobs that run, what they ask for, and the rules.

import type { PNodeId } from "../core/ids.ts";
import type { ConstraintPolicy } from "./placement/constraints.ts";
import type { FleetNode } from "./placement/types.ts";
import type { Amounts, QuotaBook, QuotaRefusal } from "./quota.ts";

/** From the least to the most important. */
export const jobClasses = ["low", "normal", "high", "urgent"] as const;
export type JobClass = (typeof jobClasses)[number];

export function rankOf(jobClass: JobClass): number {
  return jobClasses.indexOf(jobClass);
}

/** Room that a job's VNodes need together: all of it or nothing. */
export interface Demand {
  /** VNodes that must share a PNode are one unit; the largest first. */
  readonly units: readonly { readonly memoryBytes: number; readonly count: number }[];
  readonly vnodes: number;
}

export interface PendingJob {
  readonly id: string;
  readonly owner: string;
  readonly queue: string;
  readonly class: JobClass;
  readonly submittedMs: number;
  /** How long it may run, or is taken to. */
  readonly limitMs: number;
  /** Absent: it needs no room. */
  readonly demand?: Demand;
  /** The hard constraints of its PNodes. */
  readonly policy: ConstraintPolicy;
  readonly amounts: Amounts;
  /** Jobs that must be done before. */
  readonly needs: readonly string[];
}

export interface RunningJob {
  readonly id: string;
  readonly owner: string;
  readonly queue: string;
  readonly class: JobClass;
  readonly sinceMs: number;
  /** When its time is over at the latest, as far as anybody knows; Infinity if nobody does. */
  readonly endMs: number;
  readonly holds: readonly Held[];
  /** It gives way already. */
  readonly yields: boolean;
}

/** Room on a PNode. */
export interface Held {
  readonly pnode: PNodeId;
  readonly memoryBytes: number;
  readonly gpus: number;
}

export interface QueueView {
  readonly nowMs: number;
  /** Of every PNode online: what is free is so now. */
  readonly nodes: readonly FleetNode[];
  readonly pending: readonly PendingJob[];
  readonly running: readonly RunningJob[];
  /** Queues with what is claimed of them, by cohort. */
  readonly books: ReadonlyMap<string, QuotaBook>;
  /** The cohort of a queue. */
  cohortOf(queue: string): string;
  /** Decayed use by owner. */
  readonly use: ReadonlyMap<string, number>;
  /** What an owner may still spend; undefined: nobody counts. */
  creditsOf(owner: string): number | undefined;
}

export interface Rules {
  /** After this wait a job is first in line whatever its class, and nobody may delay it. */
  readonly mustStartMs: number;
  /** As much as a whole fair share: who waits this long comes before whoever used little. */
  readonly ageMs: number;
  /** So many blocked jobs get a reservation in any case; those without one start only where none of these suffers. */
  readonly reservations: number;
  /** All others get one too, until a pass has looked at so much (steps in time of one PNode): the longest queues and fleets stop at the first. */
  readonly effort: number;
  /** A job that runs for less is not asked to give way. */
  readonly quantumMs: number;
  /** Of one pass. */
  readonly startsMax: number;
  readonly victimsMax: number;
}

const minute = 60_000;

export const rulesDefault: Rules = {
  mustStartMs: 6 * 60 * minute,
  ageMs: 6 * 60 * minute,
  reservations: 32,
  effort: 2_000_000,
  quantumMs: 30 * minute,
  startsMax: 512,
  victimsMax: 32,
};

/** How fast what an owner has used is forgotten. */
export const useHalfLifeMs = 4 * 60 * minute;

export type Reason =
  | { readonly code: "needs"; readonly needs: readonly string[] }
  | { readonly code: "never" }
  | { readonly code: "credits" }
  | { readonly code: "quota"; readonly refusal: QuotaRefusal }
  /** Without `atMs` nobody knows when there will be room. */
  | { readonly code: "room"; readonly atMs?: number }
  | { readonly code: "behind"; readonly job: string }
  /** There is room, and it is being committed. */
  | { readonly code: "starting" };

export interface Start {
  readonly job: PendingJob;
  /** Room on PNodes that is free now and promised to others for later: it must not be used. */
  readonly kept: ReadonlyMap<PNodeId, Omit<Held, "pnode">>;
}

export interface Decisions {
  readonly starts: readonly Start[];
  readonly preempts: readonly { readonly victim: string; readonly for: string }[];
  /** Why each other job waits, with its place in line, in that order. */
  readonly waits: ReadonlyMap<string, { readonly reason: Reason; readonly position: number }>;
}
