// A job's life as its record keeps it: what happened when. Pure changes of records, each for one conditional write.

import type { JobEventRecord, JobRecord, JobRun, JobStatus } from "../records/jobs.ts";

/** The first and the newest are kept; a record must stay small. */
const eventsMax = 60;
const eventsKeptFirst = 10;
const runsMax = 40;
const detailLengthMax = 500;

export function lived(job: JobRecord, event: JobEventRecord): JobRecord {
  const detail = event.detail.slice(0, detailLengthMax);
  const life = [...job.life, { ...event, detail }];
  const kept = life.length > eventsMax ? [...life.slice(0, eventsKeptFirst), ...life.slice(eventsKeptFirst + 1)] : life;
  return { ...job, life: kept };
}

/** It does not run any more: for good, or until its next turn. */
export function stopped(
  job: JobRecord,
  status: Exclude<JobStatus, "running">,
  { wallMs, kind, detail }: JobEventRecord,
): JobRecord {
  const { yielding: _, amounts: __, ...rest } = job;
  const ended = status === "done" || status === "failed" || status === "cancelled";
  return {
    ...lived(rest, { wallMs, kind, detail }),
    status,
    reason: status === "done" || status === "pending" ? "" : detail,
    endedWallMs: ended ? wallMs : 0,
    runs: closed(job.runs, wallMs),
  };
}

/** Old runs are joined: how long it ran stays true, and when it did nearly. */
function closed(runs: readonly JobRun[], wallMs: number): JobRun[] {
  const ended = runs.map((run) => (run.toMs === undefined ? { ...run, toMs: Math.max(run.fromMs, wallMs) } : run));
  const [first, second, ...rest] = ended;
  if (ended.length <= runsMax || !first || !second) return ended;
  const length = (second.toMs as number) - second.fromMs + (first.toMs as number) - first.fromMs;
  return [{ fromMs: (second.toMs as number) - length, toMs: second.toMs as number }, ...rest];
}
