// Jobs, put together: submitted, scheduled, looked after, cancelled, let go on, and forgotten when they are old.

import { fail } from "../../core/errors.ts";
import type { JobSpec } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { type Rules, rulesDefault } from "../../scheduler/jobs.ts";
import { decayed } from "../../scheduler/order.ts";
import type { Context } from "../context.ts";
import { callJob, isEnded, isQueued, type JobRecord } from "../records/jobs.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Leases } from "../workloads/leases.ts";
import type { Placing } from "../workloads/placing.ts";
import { JobCare } from "./job-care.ts";
import type { JobSessions } from "./job-sessions.ts";
import { JobViews } from "./job-views.ts";
import type { JobKind } from "./kinds.ts";
import { JobKinds } from "./kinds.ts";
import { Launching } from "./launching.ts";
import { lived } from "./life.ts";
import { type QueueViewNeeds, usedBy } from "./queue-view.ts";
import { cohortOf } from "./queues.ts";
import { Quotas } from "./quotas.ts";
import { Scheduling } from "./scheduling.ts";
import { submitJobs } from "./submit.ts";

export interface JobsNeeds extends QueueViewNeeds {
  readonly leases: Leases;
  readonly placing: Placing;
  readonly kinds: readonly JobKind[];
  readonly rules?: Partial<Rules>;
}

/** Jobs that have ended are shown for so long, and so many of them; what they used counts on. */
const endedKeptMs = 7 * 24 * 60 * 60_000;
const endedKeptMax = 5_000;

export class Jobs {
  readonly kinds: JobKinds;
  readonly quotas: Quotas;
  readonly scheduling: Scheduling;
  readonly care: JobCare;
  readonly views: JobViews;
  readonly #context: Context;
  readonly #jobSessions: JobSessions;

  constructor(context: Context, needs: JobsNeeds) {
    this.#context = context;
    const { jobSessions, leases, placing } = needs;
    this.kinds = new JobKinds(needs.kinds);
    this.quotas = new Quotas(context);
    const launching = new Launching(context, { placing, quotas: this.quotas, kinds: this.kinds, jobSessions });
    const rules = { ...rulesDefault, ...needs.rules };
    this.scheduling = new Scheduling(context, { ...needs, launching, rules });
    this.care = new JobCare(context, {
      kinds: this.kinds,
      quotas: this.quotas,
      leases,
      cohortOf: (queue) => cohortOf(context.mirror, queue),
      isStarting: (job) => this.scheduling.isStarting(job),
    });
    this.views = new JobViews(context, { scheduling: this.scheduling, jobSessions, kinds: this.kinds });
    this.#jobSessions = jobSessions;
  }

  /** Now and then: what hints did not tell, and what the dead left behind. */
  async look(): Promise<void> {
    this.care.touchOpen();
    this.scheduling.request();
    await this.quotas.sweep();
    await this.#forgetOld();
  }

  async cancel(job: JobRecord, by: string): Promise<JobRecord> {
    const { mirror } = this.#context;
    for (let now: JobRecord | undefined = job; now && !isEnded(now); now = await mirror.read(key.job(job.id)))
      await this.care.end(now, "cancelled", `cancelled by ${by}`);
    return mirror.get(key.job(job.id)) ?? job;
  }

  /** Lets one that failed, was cancelled or is held go on from where it was. */
  async retry(job: JobRecord): Promise<JobRecord> {
    const { mirror, world, events } = this.#context;
    if (job.status === "done") fail("failed_precondition", `${callJob(job)} is done: submit another one`);
    if (!isEnded(job) && !job.held) return job;
    await this.kinds.get(job.kind).revive(job);
    const wallMs = world.clock.wallMs();
    const { record, written } = await mirror.update(key.job(job.id), (current) => {
      if (!current || !(isEnded(current) || current.held) || current.status === "done") return undefined;
      const { held: _, ...rest } = current;
      const status = rest.runs.length > 0 ? ("suspended" as const) : ("pending" as const);
      return { ...lived(rest, { wallMs, kind: "retried", detail: "" }), status, reason: "", endedWallMs: 0 };
    });
    if (written) events.emit("info", "job.retried", `${callJob(job)} is to go on`);
    return record ?? job;
  }

  /** Submits a trial of a study; asked again with the same key it is the same job. */
  async submitTrial(owner: string, spec: JobSpec, trial: Pick<JobRecord, "trial" | "restAfter">): Promise<JobRecord> {
    const submitted = await submitJobs({ context: this.#context, kinds: this.kinds }, owner, [spec], trial);
    return submitted[0] as JobRecord;
  }

  /** A trial that rests trains up to this step, or to its end. */
  async goOn(job: JobRecord, restAfter: number | undefined): Promise<void> {
    await this.#jobSessions.restAfter(job, restAfter);
    await this.retry(job);
  }

  /** A trial that does not go on: its session can be resumed by hand. */
  async finish(job: JobRecord, reason: string): Promise<void> {
    await this.#jobSessions.restAfter(job, undefined);
    const { mirror } = this.#context;
    for (let now: JobRecord | undefined = job; now && !isEnded(now); now = await mirror.read(key.job(job.id)))
      await this.care.end(now, "done", reason, await this.#jobSessions.results(now));
  }

  /** One that is done has more to do. */
  async reopen({ id }: JobRecord, detail: string): Promise<void> {
    const { mirror, world } = this.#context;
    const wallMs = world.clock.wallMs();
    await mirror.update(key.job(id), (current) => {
      if (current?.status !== "done") return undefined;
      const { result: _, ...rest } = current;
      return { ...lived(rest, { wallMs, kind: "reopened", detail }), status: "suspended" as const, endedWallMs: 0 };
    });
  }

  /** Whether a job says when the session runs. */
  async isQueued({ job: id }: Pick<SessionRecord, "job">): Promise<boolean> {
    const job = id && (await this.#context.mirror.read(key.job(id)));
    return job !== undefined && job.status !== "done";
  }

  /** Somebody resumes the session of a job: the job waits for its turn again. */
  async resumeFor({ id: sessionId, job: id }: Pick<SessionRecord, "id" | "job">): Promise<void> {
    const { mirror } = this.#context;
    const session = await mirror.read(key.session(sessionId));
    const job = id && (await mirror.read(key.job(id)));
    if (!job || !session) return;
    // Suspended a moment ago: its job has not let it go yet.
    const lets = job.status === "running" && session.status === "suspended";
    if (lets && (await this.care.requeue(job, session.line, "its session is to go on"))) return;
    await this.retry((await mirror.read(key.job(job.id))) ?? job);
  }

  /** Somebody suspends the session of a job that waits for its turn: it does not get one until it is resumed. */
  async holdFor({ job: id }: Pick<SessionRecord, "job">): Promise<void> {
    if (id === undefined) return;
    const { mirror, world } = this.#context;
    const event = { wallMs: world.clock.wallMs(), kind: "held", detail: "its session was suspended by hand" };
    await mirror.update(key.job(id), (current) =>
      current && isQueued(current)
        ? { ...lived(current, event), held: true as const, reason: event.detail }
        : undefined,
    );
  }

  async #forgetOld(): Promise<void> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.wallMs();
    const jobs = mirror.under(prefix.jobs);
    const open = jobs.filter((job) => !isEnded(job));
    const needed = new Set<string>(open.flatMap(({ id, needs }) => [id, ...needs]));
    const ended = jobs
      .filter((job) => isEnded(job) && !needed.has(job.id) && !needed.has(job.trial?.study ?? ""))
      .sort((a, b) => b.endedWallMs - a.endedWallMs);
    const old = ended.filter((job, index) => index >= endedKeptMax || nowMs - job.endedWallMs > endedKeptMs);
    for (const job of old.slice(0, 200)) {
      if (!(await mirror.remove(key.job(job.id), isEnded))) continue;
      await this.kinds.get(job.kind).forgotten?.(job);
      const value = usedBy(job, nowMs);
      await mirror.update(key.use(job.owner), (current) => {
        const before = current ? decayed(current.value, current.asOfWallMs, nowMs) : 0;
        return { owner: job.owner, value: before + value, asOfWallMs: nowMs };
      });
    }
  }
}
