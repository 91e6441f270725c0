// Jobs and queues as people see them: records with why each waits, its place in line and its probable start.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { PNodeId } from "../../core/ids.ts";
import type { JobSchema, QueueSchema } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { explain, outlook } from "../../scheduler/explain.ts";
import { type Limits, type QueueRules, type Resource, resources, Usage } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import { callJob, isQueued, type JobRecord, ranMs } from "../records/jobs.ts";
import { pnodeName } from "../records/names.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { JobSessions } from "./job-sessions.ts";
import type { JobKinds } from "./kinds.ts";
import type { Scheduling } from "./scheduling.ts";

export type JobView = MessageInitShape<typeof JobSchema>;
export type QueueMessage = MessageInitShape<typeof QueueSchema>;

export interface JobViewNeeds {
  readonly scheduling: Scheduling;
  readonly jobSessions: JobSessions;
  readonly kinds: JobKinds;
}

type Wait = Pick<JobView, "reason" | "wait" | "position" | "expectedStartWallMs" | "outlook">;

export class JobViews {
  readonly #context: Context;
  readonly #needs: JobViewNeeds;

  constructor(context: Context, needs: JobViewNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  /** `whole` with its life. */
  job(job: JobRecord, whole = true): JobView {
    const nowMs = this.#context.world.clock.wallMs();
    const { gpuMemoryBytes, memoryBytes, ...requirements } = job.requirements;
    const seen = job.status === "running" ? this.#progress(job) : job.status === "done" ? 1 : 0;
    return {
      id: job.id,
      spec: {
        kind: job.kind,
        name: job.name,
        queue: job.queue,
        priority: job.class,
        needs: [...job.needs],
        requirements: { ...requirements, gpuMemoryBytes: BigInt(gpuMemoryBytes), memoryBytes: BigInt(memoryBytes) },
        timeLimitSeconds: job.limitMs / 1000,
        deadlineWallMs: BigInt(job.deadlineWallMs),
        key: job.key,
        spec: whole ? JSON.stringify(job.spec) : "",
      },
      owner: job.owner,
      status: job.status,
      reason: job.reason,
      submittedWallMs: BigInt(Math.round(job.submittedWallMs)),
      startedWallMs: BigInt(Math.round(job.runs[0]?.fromMs ?? 0)),
      endedWallMs: BigInt(Math.round(job.endedWallMs)),
      ranSeconds: ranMs(job, nowMs) / 1000,
      session: job.session ?? "",
      progress: seen,
      result: { ...job.result },
      preemptions: job.preemptions,
      life: whole
        ? job.life.map(({ wallMs, kind, detail }) => ({ wallMs: BigInt(Math.round(wallMs)), kind, detail }))
        : [],
      ...this.#wait(job),
    };
  }

  #progress(job: JobRecord): number {
    if (job.session === undefined) return this.#needs.kinds.get(job.kind).progress?.(job) ?? 0;
    return this.#needs.jobSessions.progress(job);
  }

  /** One sentence with the root cause, where it waits. */
  #wait(job: JobRecord): Wait {
    if (job.held) return { wait: "held", reason: job.reason };
    const reason = job.status === "running" ? this.#needs.kinds.get(job.kind).standsFor?.(job) : undefined;
    if (reason !== undefined) return { wait: "worker", reason };
    if (!isQueued(job)) return {};
    const { mirror } = this.#context;
    const { view, decisions } = this.#needs.scheduling.outlook();
    const pending = view.pending.find(({ id }) => id === job.id);
    const found = decisions.waits.get(job.id);
    if (!pending || !found) {
      const unplaced = this.#needs.scheduling.unplaced.get(job.id);
      if (!unplaced && job.submittedWallMs >= view.nowMs)
        return { wait: "starting", reason: "it was submitted a moment ago: when it starts is decided next" };
      return { wait: unplaced ? "room" : "starting", reason: unplaced ?? "it is being started" };
    }
    const { reason: why, position } = found;
    const call = (id: string) => {
      const other = mirror.get(key.job(id));
      return other ? callJob(other) : `job ${id}`;
    };
    const own = why.code === "needs" && why.needs.includes(job.id);
    return {
      wait: why.code,
      reason: own
        ? "it is being made ready"
        : explain(pending, why, { ...view, nameOf: (pnode) => pnodeName(mirror, pnode as PNodeId), callJob: call }),
      position,
      expectedStartWallMs: BigInt(why.code === "room" ? Math.round(why.atMs ?? 0) : 0),
      outlook: why.code === "never" ? "" : outlook(position, why, view.nowMs),
    };
  }

  queue(rules: QueueRules, cohort: string): QueueMessage {
    const { mirror } = this.#context;
    const book = mirror.get(key.cohort(cohort)) ?? { queues: { [rules.name]: rules }, claims: {} };
    const usage = new Usage(book);
    const jobs = mirror.under(prefix.jobs).filter(({ queue }) => queue === rules.name);
    const all = (of: (resource: Resource) => number): Limits =>
      Object.fromEntries(resources.map((resource) => [resource, of(resource)]));
    return {
      name: rules.name,
      cohort,
      nominal: rules.nominal,
      borrowMax: rules.borrowMax,
      lendMax: rules.lendMax,
      ownerMax: rules.ownerMax,
      owners: { ...rules.owners },
      weight: rules.weight,
      pendingMax: rules.pendingMax,
      used: all((resource) => usage.used(rules.name, resource)),
      borrowed: all((resource) => usage.borrowed(rules.name, resource)),
      pending: jobs.filter(isQueued).length,
      running: jobs.filter(({ status }) => status === "running").length,
    };
  }
}
