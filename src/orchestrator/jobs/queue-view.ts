// The queue as the scheduler's pure functions see it: jobs, queues, use and the fleet, from the mirror of one moment.

import type { PNodeId } from "../../core/ids.ts";
import type { Held, PendingJob, QueueView, RunningJob } from "../../scheduler/jobs.ts";
import { decayed, decayedMs } from "../../scheduler/order.ts";
import type { ConstraintPolicy } from "../../scheduler/placement/constraints.ts";
import { requirementsNone } from "../../scheduler/placement/types.ts";
import type { Amounts } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { isEnded, isQueued, type JobRecord, ranMs } from "../records/jobs.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isLive, workloadsIn } from "../records/workloads.ts";
import { constraintsOf } from "../workloads/recovery.ts";
import { amountsOf } from "./amounts.ts";
import type { JobSessions } from "./job-sessions.ts";
import { cohortOf } from "./queues.ts";

export interface QueueViewNeeds {
  readonly capacity: Capacity;
  readonly jobSessions: JobSessions;
  readonly credits: Credits;
}

/** What owners may still spend; undefined: nobody set a bound. */
export interface Credits {
  of(owner: string): number | undefined;
}

/** How long a job is taken to run if nobody said, and nothing shows it. */
const limitUsualMs = 6 * 60 * 60_000;
/** What a session still needs, by its pace, is taken for longer by this factor. */
const paceMargin = 1.25;
/** So that a GPU counts as much as this many cores in what its owner used. */
const coresPerGpu = 8;

export function queueView(
  context: Context,
  { capacity, jobSessions, credits }: QueueViewNeeds,
  learned: ReadonlyMap<string, Amounts>,
): QueueView {
  const { mirror, world } = context;
  const nowMs = world.clock.wallMs();
  const jobs = mirror.under(prefix.jobs);
  const holds = holdsIn(context);
  const pending = jobs.filter(isQueued).map((job) => pendingJob(context, job, learned.get(job.id)));
  const running = jobs
    .filter(({ status }) => status === "running")
    .map((job) => runningJob(job, holds.get(job.session ?? "") ?? [], jobSessions, nowMs));
  const cohorts = new Map<string, string>();
  for (const { name, queues } of mirror.under(prefix.cohorts))
    for (const queue of Object.keys(queues)) cohorts.set(queue, name);
  return {
    nowMs,
    nodes: Array.from(capacity.fleet.nodes()),
    pending,
    running: [...running, ...others(context, holds, jobSessions, nowMs)],
    books: new Map(mirror.under(prefix.cohorts).map((record) => [record.name, record])),
    cohortOf: (queue) => cohorts.get(queue) ?? queue,
    use: usesOf(context, jobs, nowMs),
    creditsOf: (owner) => credits.of(owner),
  };
}

export function cohortsOf(context: Context, queues: Iterable<string>): Set<string> {
  return new Set(Array.from(queues, (queue) => cohortOf(context.mirror, queue)));
}

/** How long it may still run, as far as is known. */
export function limitOf(job: JobRecord, nowMs: number): number {
  const limitMs = job.limitMs || job.requirements.maxRuntimeSeconds * 1000;
  return limitMs > 0 ? Math.max(60_000, limitMs - ranMs(job, nowMs)) : limitUsualMs;
}

export function pendingJob({ mirror, world }: Context, job: JobRecord, learned?: Amounts): PendingJob {
  const session = job.session && mirror.get(key.session(job.session));
  return {
    id: job.id,
    owner: job.owner,
    queue: job.queue,
    class: job.class,
    submittedMs: job.submittedWallMs,
    limitMs: limitOf(job, world.clock.wallMs()),
    ...(job.demand && { demand: job.demand }),
    policy: session ? policyOf(session) : { ...nobodyAsked, requirements: constraintsOf(job.requirements) },
    amounts: learned ?? amountsOf(job),
    needs: job.prepared ? [] : unmet(job, (id) => mirror.get(key.job(id))),
  };
}

const nobodyAsked: ConstraintPolicy = { bits: 0, engine: "", numericsClass: "", requirements: requirementsNone };

function policyOf({ identity, numericsClass, requirements }: SessionRecord): ConstraintPolicy {
  const { bits = 0, numerics } = identity;
  return { bits, engine: numerics, numericsClass, requirements: constraintsOf(requirements) };
}

/** Those that are not done; itself if all are and it is being made ready. */
function unmet(job: JobRecord, find: (id: string) => JobRecord | undefined): string[] {
  const waiting = job.needs.filter((id) => find(id)?.status !== "done");
  return waiting.length > 0 ? waiting : [job.id];
}

/** Room by workload, as it is claimed. */
function holdsIn({ mirror }: Context): Map<string, Held[]> {
  const byWorkload = new Map<string, Map<PNodeId, { memoryBytes: number; gpus: number }>>();
  for (const { pnode, claims, life } of mirror.under(prefix.rooms)) {
    if (mirror.get(key.pnode(pnode))?.life !== life) continue;
    for (const { session, memoryBytes, gpus } of Object.values(claims)) {
      const rooms = byWorkload.get(session) ?? new Map();
      byWorkload.set(session, rooms);
      const sum = rooms.get(pnode) ?? { memoryBytes: 0, gpus: 0 };
      rooms.set(pnode, { memoryBytes: sum.memoryBytes + memoryBytes, gpus: Math.max(sum.gpus, gpus) });
    }
  }
  return new Map(
    Array.from(byWorkload, ([workload, rooms]) => [
      workload,
      Array.from(rooms, ([pnode, room]) => ({ pnode, ...room })),
    ]),
  );
}

function runningJob(job: JobRecord, holds: readonly Held[], jobSessions: JobSessions, nowMs: number): RunningJob {
  const { id, owner, queue, class: jobClass, yielding } = job;
  const session = jobSessions.sessionOf(job);
  const known = job.limitMs || job.requirements.maxRuntimeSeconds;
  const leftMs = known || !session ? limitOf(job, nowMs) : (endOf(session, jobSessions) ?? limitOf(job, nowMs));
  const sinceMs = job.runs.at(-1)?.fromMs ?? nowMs;
  return { id, owner, queue, class: jobClass, sinceMs, endMs: nowMs + leftMs, holds, yields: yielding !== undefined };
}

function endOf(session: SessionRecord, jobSessions: JobSessions): number | undefined {
  const leftMs = jobSessions.leftMs(session);
  return leftMs === undefined ? undefined : leftMs * paceMargin;
}

/** Sessions that nobody queued and served models hold room too; nobody is asked to give way among them. */
function others(
  { mirror }: Context,
  holds: ReadonlyMap<string, readonly Held[]>,
  jobSessions: JobSessions,
  nowMs: number,
): RunningJob[] {
  return workloadsIn(mirror).flatMap((workload): RunningJob[] => {
    const own = holds.get(workload.id);
    const session = mirror.get(key.session(workload.id));
    if (!own || session?.job || !isLive(workload)) return [];
    const leftMs = session && endOf(session, jobSessions);
    const endMs = leftMs === undefined ? Number.POSITIVE_INFINITY : nowMs + leftMs;
    return [
      { id: workload.id, owner: "", queue: "", class: "urgent", sinceMs: nowMs, endMs, holds: own, yields: false },
    ];
  });
}

/** What each owner has used of late: of the jobs that are known, and of those whose records are gone. */
function usesOf({ mirror }: Context, jobs: readonly JobRecord[], nowMs: number): Map<string, number> {
  const use = new Map<string, number>();
  const add = (owner: string, value: number) => use.set(owner, (use.get(owner) ?? 0) + value);
  for (const { owner, value, asOfWallMs } of mirror.under(prefix.uses)) add(owner, decayed(value, asOfWallMs, nowMs));
  for (const job of jobs) if (job.runs.length > 0) add(job.owner, usedBy(job, nowMs));
  return use;
}

export function usedBy(job: JobRecord, nowMs: number): number {
  const { cores, gpus } = job.amounts ?? amountsOf(job);
  const weight = job.coordinates ? 0 : Math.max(1, cores + coresPerGpu * gpus);
  return job.runs.reduce((sum, run) => sum + weight * decayedMs(run, nowMs), 0);
}

export function hasQueued({ mirror }: Context): boolean {
  return mirror.under(prefix.jobs).some(isQueued);
}

export function openJobs({ mirror }: Context): JobRecord[] {
  return mirror.under(prefix.jobs).filter((job) => !isEnded(job));
}
