// Looks after each job, one run at a time: makes it ready when its needs are done, sees how it goes, lets it give way at
// its recovery line, ends it. Only whoever holds the lease of its cohort does; each change is one conditional write.

import { messageOf, outlookOf } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { callJob, isEnded, type JobRecord, type JobStatus, ranMs } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import { Latest } from "../tasks.ts";
import type { Leases } from "../workloads/leases.ts";
import type { JobKinds, Observation } from "./kinds.ts";
import { lived, stopped } from "./life.ts";
import type { Quotas } from "./quotas.ts";

export interface JobCareNeeds {
  readonly kinds: JobKinds;
  readonly quotas: Quotas;
  readonly leases: Leases;
  readonly cohortOf: (queue: string) => string;
  /** It is being started here right now. */
  readonly isStarting: (job: string) => boolean;
}

/** Who gives way waits so long for its next checkpoint, then goes without. */
const yieldMsMax = 60_000;
/** A job whose session lost its PNodes and finds no others goes back to the queue after this. */
const withoutRoomMsMax = 60_000;
/** While something is under way that nobody tells of. */
const lookAgainMs = 500;

type Running = Extract<Observation, { state: "running" }>;

export class JobCare {
  readonly #context: Context;
  readonly #needs: JobCareNeeds;
  readonly #work: Latest<JobId>;
  readonly #again = new Set<JobId>();

  constructor(context: Context, needs: JobCareNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#work = new Latest(context.tasks, "the care for job", (id) => this.#reconcile(id));
    const { mirror } = context;
    mirror.on("job", (now, before) => this.#onJob(now, before));
    mirror.on("session", (now, before) => {
      const job = (now ?? before)?.job;
      if (job !== undefined && (now?.status !== before?.status || now?.line !== before?.line)) this.touch(job);
    });
  }

  touch(job: JobId): void {
    this.#work.request(job);
  }

  /** Now and then, for what no change of a record tells. */
  touchOpen(): void {
    for (const job of this.#context.mirror.under(prefix.jobs)) {
      const waits = job.status === "pending" && job.prepared && job.deadlineWallMs === 0;
      if (!isEnded(job) && !waits) this.touch(job.id);
    }
  }

  #onJob(now: JobRecord | undefined, before: JobRecord | undefined): void {
    if (!now) return;
    if (!isEnded(now) || !before || !isEnded(before)) this.touch(now.id);
    if (now.trial && (now.status !== before?.status || now.held !== before?.held)) this.touch(now.trial.study);
    if (!isEnded(now) || (before && isEnded(before))) return;
    for (const other of this.#context.mirror.under(prefix.jobs))
      if (!isEnded(other) && other.needs.includes(now.id)) this.touch(other.id);
  }

  #lookAgain(id: JobId): void {
    if (this.#again.has(id)) return;
    this.#again.add(id);
    this.#context.tasks.after(lookAgainMs, () => {
      this.#again.delete(id);
      this.touch(id);
    });
  }

  async #reconcile(id: JobId): Promise<void> {
    const job = this.#context.mirror.get(key.job(id));
    if (!job || !(await this.#needs.leases.holdCohort(this.#needs.cohortOf(job.queue)))) return;
    switch (job.status) {
      case "pending":
      case "suspended":
        if (job.held) return;
        if (await this.#isLate(job)) return;
        if (!job.prepared) await this.#prepare(job);
        return;
      case "running":
        await this.#observe(job);
        return;
      default:
        await this.#ended(job);
    }
  }

  async #isLate(job: JobRecord): Promise<boolean> {
    const { deadlineWallMs } = job;
    if (deadlineWallMs === 0 || this.#context.world.clock.wallMs() < deadlineWallMs) return false;
    await this.end(job, "failed", "its deadline passed before it could start");
    return true;
  }

  async #prepare(job: JobRecord): Promise<void> {
    const { mirror, world } = this.#context;
    for (const id of job.needs) {
      const need = mirror.get(key.job(id)) ?? (await mirror.read(key.job(id)));
      if (need?.status === "failed" || need?.status === "cancelled") {
        await this.end(
          job,
          "failed",
          `${callJob(need)}, which it needs, ${need.status === "failed" ? "failed" : "was cancelled"}`,
        );
        return;
      }
      if (!need) {
        await this.end(job, "failed", `job ${id}, which it needs, is gone`);
        return;
      }
      if (need.status !== "done") return;
    }
    try {
      const prepared = await this.#needs.kinds.get(job.kind).prepare(job);
      const wallMs = world.clock.wallMs();
      await mirror.update(key.job(job.id), (current) =>
        current && !current.prepared && !isEnded(current)
          ? {
              ...lived(current, { wallMs, kind: "ready", detail: "all that it needs is done" }),
              ...prepared,
              prepared: true as const,
            }
          : undefined,
      );
    } catch (thrown) {
      if (outlookOf(thrown) !== "final") {
        this.#lookAgain(job.id);
        throw thrown;
      }
      await this.end(job, "failed", messageOf(thrown));
    }
  }

  async #observe(job: JobRecord): Promise<void> {
    const kind = this.#needs.kinds.get(job.kind);
    const seen = await kind.observe(job);
    if (seen.state === "done") await this.end(job, "done", seen.reason ?? "", seen.result);
    else if (seen.state === "failed") await this.end(job, "failed", seen.reason);
    // What is being started is not stopped half-way: its owners would outlive it.
    else if (seen.unstarted) await this.#startLate(job);
    else if (seen.rests === "now") await this.#rest(job, seen.line ?? 0);
    else if (seen.rests === "soon") this.#lookAgain(job.id);
    else if (job.yielding) await this.#yield(job, seen);
    else if (seen.held) await this.#hold(job, seen.reason ?? "");
    else if ((seen.withoutRoomMs ?? 0) > withoutRoomMsMax)
      await this.requeue(job, seen.line ?? 0, "lost PNodes, and there is no room for all of it");
    else if (this.#isOverTime(job)) await this.end(job, "failed", `its time of ${job.limitMs / 1000} s was over`);
    else if (seen.progress === 1) this.#lookAgain(job.id);
  }

  /** Whoever committed it died before it started it. */
  async #startLate(job: JobRecord): Promise<void> {
    if (!this.#needs.isStarting(job.id)) await this.#needs.kinds.get(job.kind).start(job);
  }

  /** Sessions end by themselves at their limit, with what they have; this is for kinds without one. */
  #isOverTime(job: JobRecord): boolean {
    return (
      job.session === undefined && job.limitMs > 0 && ranMs(job, this.#context.world.clock.wallMs()) >= job.limitMs
    );
  }

  /** It goes at its next checkpoint, so that nothing is computed twice; it does not keep others waiting for ever. */
  async #yield(job: JobRecord, seen: Running): Promise<void> {
    const { yielding } = job;
    const waitedMs = this.#context.world.clock.wallMs() - (yielding?.sinceWallMs ?? 0);
    const reached = seen.line === undefined || seen.line > (yielding?.line ?? 0) || seen.held;
    const may = reached || yielding?.for === "" || waitedMs > yieldMsMax;
    if (!may || !(await this.#needs.kinds.get(job.kind).suspend(job))) {
      this.#lookAgain(job.id);
      return;
    }
    const to = yielding?.for ? `gave way to job ${yielding.for}` : "went back to the queue";
    await this.#stop(job, "suspended", "suspended", `${to}; goes on later from step ${seen.line ?? 0}`);
  }

  /** Whoever runs the study decides whether it goes on; until then others have its room. */
  async #rest(job: JobRecord, line: number): Promise<void> {
    if (!(await this.#needs.kinds.get(job.kind).suspend(job))) {
      this.#lookAgain(job.id);
      return;
    }
    await this.#stop(job, "suspended", "rests", `rests at step ${line} until its study decides`, true);
  }

  /** Somebody suspended its session: it is left alone until that somebody lets it go on. */
  async #hold(job: JobRecord, reason: string): Promise<void> {
    // What was seen may be of its last run: the session of a new one must not be suspended.
    if (this.#context.mirror.get(key.job(job.id))?.epoch !== job.epoch) return;
    if (!(await this.#needs.kinds.get(job.kind).suspend(job))) {
      this.#lookAgain(job.id);
      return;
    }
    await this.#stop(
      job,
      "suspended",
      "held",
      reason || "its session was suspended by hand: resume it, or retry the job",
      true,
    );
  }

  /** It waits for its turn again once nobody owns what it runs; false if it does not run any more. */
  async requeue(job: JobRecord, line: number, detail: string): Promise<boolean> {
    const { mirror, world } = this.#context;
    const wallMs = world.clock.wallMs();
    const { record } = await mirror.update(key.job(job.id), (current) =>
      current?.status === "running" && current.epoch === job.epoch && !current.yielding
        ? {
            ...lived(current, { wallMs, kind: "requeued", detail }),
            yielding: { for: "", sinceWallMs: wallMs, line },
          }
        : undefined,
    );
    return record?.status === "running" && record.epoch === job.epoch;
  }

  /** Ends the job for good; what it holds is given back after its record says so. */
  async end(
    job: JobRecord,
    status: "done" | "failed" | "cancelled",
    reason: string,
    result?: JobRecord["result"],
  ): Promise<void> {
    await this.#stop(job, status, status, reason, false, result);
  }

  async #stop(
    job: JobRecord,
    status: Exclude<JobStatus, "running">,
    kind: string,
    detail: string,
    held = false,
    result?: JobRecord["result"],
  ): Promise<void> {
    const { mirror, world, events } = this.#context;
    const wallMs = world.clock.wallMs();
    const { record, written } = await mirror.update(key.job(job.id), (current) => {
      if (!current || isEnded(current) || current.epoch !== job.epoch || current.status !== job.status)
        return undefined;
      // Somebody resumed its session meanwhile. One that rests does so whoever wants it to give way.
      if (kind === "held" && current.yielding) return undefined;
      const next = stopped(current, status, { wallMs, kind, detail });
      return { ...next, ...(held && { held: true as const }), ...(result && { result }) };
    });
    if (!written || !record) return;
    const level = status === "failed" ? "warn" : "info";
    const about = record.session ? { session: record.session } : {};
    events.emit(level, `job.${kind}`, `${callJob(job)} ${said(status)}${detail ? `: ${detail}` : ""}`, about);
    await this.#needs.quotas.giveBack(record);
    if (isEnded(record)) await this.#ended(record);
  }

  /** Whatever it ran stops with it. */
  async #ended(job: JobRecord): Promise<void> {
    const kind = this.#needs.kinds.get(job.kind);
    if (job.status === "cancelled" && !(await kind.suspend(job))) this.#lookAgain(job.id);
    await kind.ended?.(job);
  }
}

function said(status: JobStatus): string {
  switch (status) {
    case "done":
    case "pending":
    case "running":
      return `is ${status}`;
    case "suspended":
    case "cancelled":
      return `is ${status}`;
    case "failed":
      return "failed";
  }
}
