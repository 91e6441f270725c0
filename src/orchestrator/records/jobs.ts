// What the store holds of jobs and queues. A job's record is the one place that says whether it runs: everything else
// that a job holds (quota, room, owners) is claimed before it says so, and given back after it says no more.

import type { JobId, SessionId } from "../../core/ids.ts";
import type { SessionRequirements } from "../../network/settings/session.ts";
import type { Demand, JobClass } from "../../scheduler/jobs.ts";
import type { Amounts, QuotaBook } from "../../scheduler/quota.ts";

/** "suspended": it ran, gave way or was stopped, and goes on later from where it was. */
export type JobStatus = "pending" | "running" | "suspended" | "done" | "failed" | "cancelled";

export interface JobEventRecord {
  readonly wallMs: number;
  readonly kind: string;
  readonly detail: string;
}

/** A stretch in which it ran. */
export interface JobRun {
  readonly fromMs: number;
  readonly toMs?: number;
}

export interface JobRecord {
  readonly id: JobId;
  readonly kind: string;
  readonly name: string;
  readonly owner: string;
  /** Names it among its owner's. */
  readonly key: string;
  readonly queue: string;
  readonly class: JobClass;
  /** As its kind keeps it: a JSON object. */
  readonly spec: Readonly<Record<string, unknown>>;
  readonly needs: readonly JobId[];
  readonly requirements: SessionRequirements;
  /** 0: none. */
  readonly limitMs: number;
  readonly deadlineWallMs: number;
  readonly status: JobStatus;
  /** Grows whenever it begins to run; what was claimed for an earlier one is rubbish. */
  readonly epoch: number;
  /** Its needs are done and it was made ready; absent: not yet. */
  readonly prepared?: true;
  /** What it runs, for kinds that run one. */
  readonly session?: SessionId;
  readonly demand?: Demand;
  /** Owners of each VNode. */
  readonly copies?: number;
  /** It only looks after others, which count: it is charged nothing. */
  readonly coordinates?: true;
  /** The study that it is a trial of. */
  readonly trial?: { readonly study: JobId; readonly number: number };
  /** Of a trial: the step after which it is first looked at. */
  readonly restAfter?: number;
  /** The network that it is about, where it is about one. */
  readonly network?: string;
  /** What it is charged while it runs. */
  readonly amounts?: Amounts;
  /** Asked to give way. */
  readonly yielding?: {
    /** The job that it gives way to; empty if it goes back to the queue for its own sake. */
    readonly for: string;
    readonly sinceWallMs: number;
    /** The recovery line then: it goes when the line has moved on, so that nothing is computed twice. */
    readonly line: number;
  };
  /** Somebody stopped it: it waits for that somebody, not for room. */
  readonly held?: true;
  /** Why it failed or was cancelled; empty otherwise. */
  readonly reason: string;
  readonly result?: Readonly<Record<string, string>>;
  readonly submittedWallMs: number;
  readonly endedWallMs: number;
  /** Oldest first; the first ones are joined when there are many. */
  readonly runs: readonly JobRun[];
  readonly preemptions: number;
  readonly life: readonly JobEventRecord[];
}

/** What a model said to a piece of a job's documents; create-only. */
export interface AnswersRecord {
  readonly job: JobId;
  readonly piece: number;
  readonly answers: readonly string[];
}

/** Who works on a job of the kind data, in which of its runs, and how that goes. */
export interface DataWorkRecord {
  readonly job: JobId;
  /** The job's. */
  readonly epoch: number;
  readonly token: string;
  readonly worker: string;
  readonly toldWallMs: number;
  readonly progress: number;
  readonly outcome?:
    | { readonly state: "done"; readonly result: Readonly<Record<string, string>> }
    | { readonly state: "failed"; readonly reason: string };
}

/** The queues of a cohort with what is claimed of them. */
export interface CohortRecord extends QuotaBook {
  readonly name: string;
}

/** What an owner used in jobs whose records are gone, as of a time. */
export interface UseRecord {
  readonly owner: string;
  readonly value: number;
  readonly asOfWallMs: number;
}

/** Of callers on the orchestrator's own machine who do not say who they are. */
export const localOwner = "local";

export function isEnded({ status }: Pick<JobRecord, "status">): boolean {
  return status === "done" || status === "failed" || status === "cancelled";
}

/** In the queue: it wants to run. */
export function isQueued({ status, held }: Pick<JobRecord, "status" | "held">): boolean {
  return (status === "pending" || status === "suspended") && !held;
}

export function ranMs({ runs }: Pick<JobRecord, "runs">, nowMs: number): number {
  return runs.reduce((sum, { fromMs, toMs }) => sum + Math.max(0, (toMs ?? nowMs) - fromMs), 0);
}

/** What people call it. */
export function callJob({ id, name }: Pick<JobRecord, "id" | "name">): string {
  return name === "" ? `job ${id}` : `job ${name} (${id})`;
}
