// A queue over days in moments: the production decisions (src/scheduler/decide.ts) and claims (quota.ts) in discrete events,
// with sessions that are nothing but time. Jobs come, run, give way and go on; machines come and go. Whatever must hold is
// counted by hand, here and in queue-checks.ts, with nothing of the scheduler's own.

import type { PNodeId } from "../../src/core/ids.ts";
import {
  type Decisions,
  type Held,
  type PendingJob,
  type QueueView,
  type Rules,
  type RunningJob,
  rulesDefault,
} from "../../src/scheduler/jobs.ts";
import { decayedMs } from "../../src/scheduler/order.ts";
import { type QuotaBook, unclaimed } from "../../src/scheduler/quota.ts";
import { overuse } from "./queue-checks.ts";
import { type QueueParts, type QueueWorldOptions, type QueueWorldReport, soundParts } from "./queue-parts.ts";
import type { SimulatedJob } from "./workload.ts";

/** States are stored this often; what was done since is done again. */
const checkpointMs = 60_000;
/** A world of a day has some hundred. */
const turnsMax = 8_000;
const overdueSlackMs = 5 * 60_000;

interface Running {
  readonly entry: Entry;
  readonly sinceMs: number;
  readonly endsMs: number;
  readonly holds: readonly Held[];
  yieldsMs: number;
}

interface Entry {
  readonly job: PendingJob;
  leftMs: number;
  startedMs: number;
  epoch: number;
  promisedMs: number;
}

export function runQueueWorld(options: QueueWorldOptions): QueueWorldReport {
  return new QueueWorld(options).run();
}

class QueueWorld {
  readonly #options: QueueWorldOptions;
  readonly #parts: QueueParts;
  readonly #rules: Rules;
  readonly #free = new Map<PNodeId, number>();
  readonly #down = new Set<string>();
  readonly #waiting = new Map<string, Entry>();
  readonly #running = new Map<string, Running>();
  readonly #books: Map<string, QuotaBook>;
  readonly #cohorts = new Map<string, string>();
  readonly #runs: { owner: string; weight: number; fromMs: number; toMs?: number }[] = [];
  readonly #violations: string[] = [];
  readonly #waits = new Map<string, number>();
  #stale: QueueView | undefined;
  #nowMs = 0;
  #passes = 0;
  #preemptions = 0;
  #aborted = 0;
  #usedMs = 0;

  constructor(options: QueueWorldOptions) {
    this.#options = options;
    this.#parts = { ...soundParts, ...options.parts };
    this.#rules = { ...rulesDefault, ...options.rules };
    this.#books = new Map(options.books ?? []);
    for (const [cohort, { queues }] of this.#books)
      for (const queue of Object.keys(queues)) this.#cohorts.set(queue, cohort);
    for (const { id, memoryBytes } of options.nodes) this.#free.set(id, memoryBytes);
  }

  run(): QueueWorldReport {
    const { jobs, outages = [], passMs = 30_000 } = this.#options;
    const coming = [...jobs].sort((a, b) => a.job.submittedMs - b.job.submittedMs);
    const changes = outages
      .flatMap(({ atMs, backMs, pnode }) => [
        { atMs, pnode, down: true },
        { atMs: backMs, pnode, down: false },
      ])
      .sort((a, b) => a.atMs - b.atMs);
    const lastMs = coming.at(-1)?.job.submittedMs ?? 0;
    let capacityMs = 0;
    for (let turn = 0; coming.length + this.#waiting.size + this.#running.size > 0; turn++) {
      if (turn > turnsMax || this.#isStuck(coming.length, changes.length)) {
        this.#wrong(
          `${this.#waiting.size} jobs never start: ${Array.from(this.#waiting.keys()).slice(0, 3).join(", ")}`,
        );
        break;
      }
      const beforeMs = this.#nowMs;
      this.#nowMs = this.#next(coming[0]?.job.submittedMs, changes[0]?.atMs, passMs);
      const spanMs = Math.max(0, Math.min(this.#nowMs, lastMs) - Math.min(beforeMs, lastMs));
      for (const { holds } of this.#running.values())
        for (const { memoryBytes } of holds) this.#usedMs += memoryBytes * spanMs;
      for (const { memoryBytes } of this.#options.nodes) capacityMs += memoryBytes * spanMs;
      this.#end();
      while ((changes[0]?.atMs ?? Number.POSITIVE_INFINITY) <= this.#nowMs)
        this.#change(changes.shift() as (typeof changes)[number]);
      while ((coming[0]?.job.submittedMs ?? Number.POSITIVE_INFINITY) <= this.#nowMs) {
        const { job, timeMs } = coming.shift() as SimulatedJob;
        this.#waiting.set(job.id, {
          job,
          leftMs: timeMs,
          startedMs: -1,
          epoch: 0,
          promisedMs: Number.POSITIVE_INFINITY,
        });
      }
      this.#pass();
      this.#check();
      // What comes after a violation proves nothing.
      if (this.#violations.length > 0) break;
    }
    return {
      violations: this.#violations,
      waitsMs: this.#waits,
      preemptions: this.#preemptions,
      passes: this.#passes,
      aborted: this.#aborted,
      use: capacityMs > 0 ? this.#usedMs / capacityMs : 0,
    };
  }

  #isStuck(coming: number, changes: number): boolean {
    return coming === 0 && changes === 0 && this.#running.size === 0 && this.#passes > 0 && this.#idlePasses > 3;
  }

  #idlePasses = 0;

  #next(submittedMs = Number.POSITIVE_INFINITY, changeMs = Number.POSITIVE_INFINITY, passMs: number): number {
    let nextMs = Math.min(submittedMs, changeMs);
    for (const { endsMs, yieldsMs } of this.#running.values()) nextMs = Math.min(nextMs, endsMs, yieldsMs);
    if (this.#waiting.size > 0) nextMs = Math.min(Math.max(nextMs, this.#nowMs + passMs), this.#nowMs + 10 * 60_000);
    return Math.max(this.#nowMs, nextMs);
  }

  #end(): void {
    for (const [id, one] of this.#running) {
      if (one.endsMs <= this.#nowMs) {
        this.#stop(id, one, one.endsMs);
      } else if (one.yieldsMs <= this.#nowMs) {
        this.#stop(id, one, one.yieldsMs);
        this.#requeue(one, one.yieldsMs);
      }
    }
  }

  #stop(id: string, one: Running, atMs: number): void {
    this.#running.delete(id);
    for (const { pnode, memoryBytes } of one.holds) this.#free.set(pnode, (this.#free.get(pnode) ?? 0) + memoryBytes);
    const run = this.#runs.findLast(({ toMs, owner }) => toMs === undefined && owner === one.entry.job.owner);
    if (run) run.toMs = atMs;
    const cohort = this.#cohorts.get(one.entry.job.queue);
    const book = cohort && this.#books.get(cohort);
    if (cohort && book) this.#books.set(cohort, unclaimed(book, new Map([[id, one.entry.epoch]])) ?? book);
  }

  /** What was stored at its last checkpoint is not done again. */
  #requeue({ entry, sinceMs }: Running, atMs: number): void {
    const doneMs = Math.floor((atMs - sinceMs) / checkpointMs) * checkpointMs;
    const leftMs = this.#parts.leftMs(entry.leftMs, doneMs);
    if (leftMs !== entry.leftMs - doneMs) this.#wrong(`${entry.job.id} goes on elsewhere than where it stopped`);
    entry.leftMs = Math.max(1, leftMs);
    this.#waiting.set(entry.job.id, entry);
  }

  #change({ pnode, down }: { readonly pnode: string; readonly down: boolean }): void {
    if (!down) {
      this.#down.delete(pnode);
      return;
    }
    this.#down.add(pnode);
    for (const [id, one] of this.#running)
      if (one.holds.some((held) => held.pnode === pnode)) {
        this.#stop(id, one, this.#nowMs);
        this.#requeue(one, this.#nowMs);
      }
  }

  #view(): QueueView {
    const { nodes } = this.#options;
    const use = new Map<string, number>();
    for (const { owner, weight, fromMs, toMs } of this.#runs) {
      const run = toMs === undefined ? { fromMs } : { fromMs, toMs };
      use.set(owner, (use.get(owner) ?? 0) + weight * decayedMs(run, this.#nowMs));
    }
    const running = Array.from(this.#running.values(), ({ entry, sinceMs, holds, yieldsMs }): RunningJob => {
      const { id, owner, queue, class: jobClass, limitMs } = entry.job;
      return {
        id,
        owner,
        queue,
        class: jobClass,
        sinceMs,
        endMs: sinceMs + limitMs,
        holds,
        yields: yieldsMs < Number.POSITIVE_INFINITY,
      };
    });
    return {
      nowMs: this.#nowMs,
      nodes: nodes
        .filter(({ id }) => !this.#down.has(id))
        .map((one) => ({ ...one, memoryFreeBytes: this.#free.get(one.id) ?? 0 })),
      pending: Array.from(this.#waiting.values(), ({ job }) => job),
      running,
      books: new Map(this.#books),
      cohortOf: (queue) => this.#cohorts.get(queue) ?? queue,
      use,
      creditsOf: () => undefined,
    };
  }

  #pass(): void {
    if (this.#waiting.size === 0) return;
    this.#passes++;
    const view = this.#view();
    let began = 0;
    const views = [view, ...Array.from({ length: this.#options.rivals ?? 0 }, () => this.#stale ?? view)];
    for (const seen of views) {
      const decisions = this.#parts.decide({ ...seen, nowMs: this.#nowMs }, this.#rules);
      for (const { job, kept } of decisions.starts) if (this.#start(job.id, kept)) began++;
      if (seen === view) this.#preempt(decisions);
      if (seen === view) this.#promises(decisions);
    }
    this.#stale = view;
    this.#idlePasses = began > 0 ? 0 : this.#idlePasses + 1;
  }

  #preempt({ preempts }: Decisions): void {
    for (const { victim } of preempts) {
      const one = this.#running.get(victim);
      if (!one || one.yieldsMs < Number.POSITIVE_INFINITY) continue;
      this.#preemptions++;
      this.#gaveWay.add(victim);
      const ranMs = this.#nowMs - one.sinceMs;
      one.yieldsMs = one.sinceMs + Math.ceil((ranMs + 1) / checkpointMs) * checkpointMs;
    }
  }

  #promises({ waits }: Decisions): void {
    for (const [id, { reason, position }] of waits) {
      const entry = this.#waiting.get(id);
      // For those further back it is a forecast: whoever ends early may let others take what they counted on.
      if (entry && position === 1 && reason.code === "room" && reason.atMs !== undefined)
        entry.promisedMs = Math.min(entry.promisedMs, reason.atMs);
    }
  }

  /** Room on each PNode, quota, then it runs; whoever is refused anywhere has nothing. */
  #start(id: string, kept: Decisions["starts"][number]["kept"]): boolean {
    const entry = this.#waiting.get(id);
    if (!entry) return false;
    const { job } = entry;
    const unit = job.demand?.units[0]?.memoryBytes ?? 0;
    const vnodes = this.#parts.gang(job.demand?.vnodes ?? 0);
    const holds: Held[] = [];
    let left = vnodes;
    for (const { id: pnode, memoryBytes } of this.#options.nodes) {
      if (left === 0 || this.#down.has(pnode)) continue;
      const free = (this.#free.get(pnode) ?? 0) - (kept.get(pnode)?.memoryBytes ?? 0);
      const most = Math.min(left, Math.floor(memoryBytes / unit));
      let count = Math.min(most, Math.max(0, Math.floor(free / unit)));
      while (count < most && this.#parts.hasRoom(free, (count + 1) * unit)) count++;
      if (count === 0) continue;
      holds.push({ pnode, memoryBytes: count * unit, gpus: 0 });
      left -= count;
    }
    if (left > 0 || !this.#claimQuota(entry)) {
      this.#aborted++;
      return false;
    }
    for (const { pnode, memoryBytes } of holds) this.#free.set(pnode, (this.#free.get(pnode) ?? 0) - memoryBytes);
    this.#waiting.delete(id);
    entry.epoch++;
    if (entry.startedMs < 0) this.#began(entry);
    this.#runs.push({ owner: job.owner, weight: job.demand?.vnodes ?? 1, fromMs: this.#nowMs });
    this.#running.set(id, {
      entry,
      sinceMs: this.#nowMs,
      endsMs: this.#nowMs + entry.leftMs,
      holds,
      yieldsMs: Number.POSITIVE_INFINITY,
    });
    const placed = holds.reduce((sum, held) => sum + held.memoryBytes / unit, 0);
    if (placed !== job.demand?.vnodes) this.#wrong(`${id} runs with ${placed} of ${job.demand?.vnodes} VNodes`);
    return true;
  }

  #claimQuota({ job, epoch }: Entry): boolean {
    const cohort = this.#cohorts.get(job.queue);
    const book = cohort && this.#books.get(cohort);
    if (!cohort || !book) return true;
    const { queue, owner, amounts } = job;
    const { book: next, jobs } = this.#parts.claimQuota(
      book,
      new Map([[job.id, { queue, owner, amounts, epoch: epoch + 1 }]]),
    );
    if (next) this.#books.set(cohort, next);
    return jobs.has(job.id);
  }

  #began(entry: Entry): void {
    const { job, promisedMs } = entry;
    entry.startedMs = this.#nowMs;
    const waitMs = this.#nowMs - job.submittedMs;
    this.#waits.set(job.id, waitMs);
    this.#checkWait(job, waitMs);
    // Without classes, shares and outages nobody who comes later may push a promise back.
    if (this.#isPlain() && this.#nowMs > promisedMs + overdueSlackMs)
      this.#wrong(`${job.id} was promised to start at ${promisedMs} and starts at ${this.#nowMs}`);
  }

  #isPlain(): boolean {
    const first = this.#options.jobs[0]?.job;
    const same = ({ job }: SimulatedJob) =>
      job.class === first?.class && job.owner === first.owner && job.queue === first.queue;
    this.#plain ??=
      (this.#options.outages ?? []).length === 0 && !this.#options.rivals && this.#options.jobs.every(same);
    return this.#plain;
  }

  #plain: boolean | undefined;

  /**
   * Once it has waited too long a job stands behind older ones alone, and each of those ends within its limit: so it starts
   * within the limits of what runs and of all older ones that wait then, one after the other.
   */
  #checkWait(job: PendingJob, waitMs: number): void {
    if ((this.#options.outages ?? []).length > 0 || this.#books.size > 0) return;
    const overdueMs = job.submittedMs + this.#rules.mustStartMs;
    let boundMs = this.#rules.mustStartMs + overdueSlackMs;
    let longestMs = 0;
    for (const { job: other } of this.#options.jobs) {
      if (other.id === job.id || other.submittedMs > this.#nowMs) continue;
      longestMs = Math.max(longestMs, other.limitMs);
      const startedMs = other.submittedMs + (this.#waits.get(other.id) ?? Number.POSITIVE_INFINITY);
      const isBefore = other.submittedMs < job.submittedMs && (startedMs > overdueMs || this.#gaveWay.has(other.id));
      if (isBefore) boundMs += other.limitMs;
    }
    boundMs += longestMs;
    if (waitMs > boundMs)
      this.#wrong(
        `${job.id} waited ${Math.round(waitMs / 60_000)} min, at most ${Math.round(boundMs / 60_000)} are allowed`,
      );
  }

  readonly #gaveWay = new Set<string>();

  #check(): void {
    const running = Array.from(this.#running.values());
    for (const sentence of overuse(running, this.#options.nodes, this.#books.values())) this.#wrong(sentence);
  }

  #wrong(sentence: string): void {
    if (this.#violations.length < 20) this.#violations.push(`${Math.round(this.#nowMs / 60_000)} min: ${sentence}`);
  }
}
