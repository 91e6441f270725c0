// The pass over the queue, whenever something changed that could let a job start: decides over all jobs (decide.ts) and
// commits for those cohorts whose lease this orchestrator holds. Leases spare double work; the claims keep it safe.

import type { JobId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { decide } from "../../scheduler/decide.ts";
import type { Decisions, QueueView, Rules, Start } from "../../scheduler/jobs.ts";
import type { Amounts } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import { isQueued, type JobRecord } from "../records/jobs.ts";
import { isOpen } from "../records/machines.ts";
import { key } from "../records/store-keys.ts";
import { forEachAtOnce } from "../tasks.ts";
import type { Leases } from "../workloads/leases.ts";
import type { JobSessions } from "./job-sessions.ts";
import type { Launched, Launching } from "./launching.ts";
import { lived } from "./life.ts";
import { hasQueued, type QueueViewNeeds, queueView } from "./queue-view.ts";
import { cohortOf } from "./queues.ts";

export interface SchedulingNeeds extends QueueViewNeeds {
  readonly leases: Leases;
  readonly launching: Launching;
  readonly jobSessions: JobSessions;
  readonly rules: Rules;
}

/** Bursts of changes lead to one pass. */
const passGapMs = 20;
const launchesAtOnce = 256;
/** Between passes over a long queue is so many times what the last one took: whoever submits thousands is not kept waiting by them. */
const restShare = 4;
/** People who ask see decisions that are at most so old. */
const shownForMs = 1_000;

export interface Outlook {
  readonly view: QueueView;
  readonly decisions: Decisions;
}

export class Scheduling {
  readonly #context: Context;
  readonly #needs: SchedulingNeeds;
  /** What a job's placement took, where a bound said no to that: it asks for as much next time. */
  readonly #learned = new Map<string, Amounts>();
  /** Why the last attempt to place a job failed although there seemed to be room. */
  readonly unplaced = new Map<string, string>();
  readonly #starting = new Set<string>();
  /** By the last decisions. */
  #tookMs = 0;
  #wanted = false;
  #passing = false;
  #shown: (Outlook & { readonly atMs: number; readonly changes: number }) | undefined;
  /** For metrics. */
  passes = 0;
  decided = 0;

  constructor(context: Context, needs: SchedulingNeeds) {
    this.#context = context;
    this.#needs = needs;
    const { mirror } = context;
    mirror.on("job", (now, before) => {
      if (now === undefined || now.epoch !== before?.epoch) this.#forget((now ?? before)?.id);
      if (now?.status !== before?.status || now?.prepared !== before?.prepared) this.request();
    });
    mirror.on("cohort", () => this.request());
    mirror.on("room", (now, before) => {
      if (Object.keys(now?.claims ?? {}).length < Object.keys(before?.claims ?? {}).length) this.request();
    });
    mirror.on("pnode", (now, before) => {
      const open = (record: typeof now) => record !== undefined && isOpen(record);
      if (open(now) !== open(before) || now?.life !== before?.life) this.request();
    });
  }

  #forget(job: string | undefined): void {
    if (job === undefined) return;
    this.#learned.delete(job);
    this.unplaced.delete(job);
  }

  isStarting(job: string): boolean {
    return this.#starting.has(job);
  }

  /** A pass comes soon. */
  request(): void {
    this.#wanted = true;
    if (this.#passing || this.#context.tasks.stopped) return;
    this.#passing = true;
    this.#context.tasks.run("the pass over the queue", () => this.#passes());
  }

  async #passes(): Promise<void> {
    const { world, tasks } = this.#context;
    try {
      while (this.#wanted && !tasks.stopped) {
        this.#wanted = false;
        await sleep(world.timers, Math.max(passGapMs, restShare * this.#tookMs), tasks.signal);
        await this.#pass();
      }
    } finally {
      this.#passing = false;
    }
  }

  async #pass(): Promise<void> {
    if (!hasQueued(this.#context)) return;
    const { decisions } = this.outlook(true);
    this.passes++;
    this.decided += decisions.starts.length + decisions.waits.size;
    const mine = await this.#mine(decisions);
    await forEachAtOnce(decisions.preempts.filter(mine), 16, (one) => this.#askToYield(one.victim, one.for));
    const starts = decisions.starts.filter(({ job }) => mine({ for: job.id }) && !this.#starting.has(job.id));
    await forEachAtOnce(starts, launchesAtOnce, (start) => this.#start(start));
    if (starts.length > 0) this.#wanted = true;
  }

  /** Whether a job is of a cohort that this orchestrator schedules. */
  async #mine({ starts, preempts }: Decisions): Promise<(one: { readonly for: string }) => boolean> {
    const { mirror } = this.#context;
    const cohortOfJob = (id: string) => cohortOf(mirror, mirror.get(key.job(id))?.queue ?? "");
    const wanted = new Set([...starts.map(({ job }) => job.id), ...preempts.map((one) => one.for)].map(cohortOfJob));
    const held = new Set<string>();
    for (const cohort of wanted) if (await this.#needs.leases.holdCohort(cohort)) held.add(cohort);
    return (one) => held.has(cohortOfJob(one.for));
  }

  async #start({ job, kept }: Start): Promise<void> {
    const seen = this.#context.mirror.get(key.job(job.id));
    if (!seen || !isQueued(seen) || !seen.prepared) return;
    this.#starting.add(job.id);
    try {
      this.#note(seen, await this.#needs.launching.launch(seen, kept));
    } finally {
      this.#starting.delete(job.id);
    }
  }

  #note({ id }: JobRecord, outcome: Launched): void {
    this.#forget(id);
    if (outcome.launched) return;
    if (outcome.amounts) this.#learned.set(id, outcome.amounts);
    if (outcome.reason) this.unplaced.set(id, outcome.reason);
  }

  async #askToYield(victim: string, beneficiary: string): Promise<void> {
    const { mirror, world, events } = this.#context;
    const wallMs = world.clock.wallMs();
    const { record, written } = await mirror.update(key.job(victim as JobId), (current) => {
      if (current?.status !== "running" || current.yielding) return undefined;
      const line = this.#needs.jobSessions.sessionOf(current)?.line ?? 0;
      const detail = `gives way to job ${beneficiary}`;
      return {
        ...lived(current, { wallMs, kind: "preempted", detail }),
        preemptions: current.preemptions + 1,
        yielding: { for: beneficiary, sinceWallMs: wallMs, line },
      };
    });
    if (written && record)
      events.emit("info", "job.preempted", `job ${victim} gives way to job ${beneficiary} at its next checkpoint`, {
        ...(record.session && { session: record.session }),
      });
  }

  get rules(): Rules {
    return this.#needs.rules;
  }

  /** The newest decisions; anybody who asks may cause new ones, for show. */
  outlook(now = false): Outlook {
    const { mirror, world } = this.#context;
    const atMs = world.clock.monotonicMs();
    const shown = this.#shown;
    if (
      !now &&
      shown &&
      (atMs - shown.atMs < shownForMs || shown.changes === mirror.changes) &&
      atMs - shown.atMs < 10 * shownForMs
    )
      return shown;
    const view = queueView(this.#context, this.#needs, this.#learned);
    this.#shown = { view, decisions: decide(view, this.#needs.rules), atMs, changes: mirror.changes };
    this.#tookMs = world.clock.monotonicMs() - atMs;
    return this.#shown;
  }
}
