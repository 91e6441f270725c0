// Quotas in the store: claimed before a job's record says that it runs, given back when it says no more, swept by anybody
// when whoever claimed died in between. All queues of a cohort are one record, so what is asked for at the same time goes
// into one write.

import type { JobId } from "../../core/ids.ts";
import { claimed, type QuotaClaim, unclaimed } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import type { JobRecord } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import { cohortOf } from "./queues.ts";

/** Whoever claims commits within a second or so. */
const openMsMax = 10_000;

interface Ask {
  readonly job: JobId;
  /** Undefined: what it has up to this epoch is given back. */
  readonly claim?: QuotaClaim;
  readonly epoch: number;
  resolve(granted: boolean): void;
  reject(reason: unknown): void;
}

export class Quotas {
  readonly #context: Context;
  readonly #asks = new Map<string, Ask[]>();
  readonly #writing = new Set<string>();
  /** Claims of jobs that do not run under them, with the time since when this orchestrator has seen them so. */
  readonly #openSinceMs = new Map<string, number>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** False if a bound says no. Where nobody has set a quota there is nothing to claim. */
  claim(job: JobId, claim: QuotaClaim): Promise<boolean> {
    const cohort = cohortOf(this.#context.mirror, claim.queue);
    if (!this.#context.mirror.get(key.cohort(cohort))) return Promise.resolve(true);
    return this.#ask(cohort, { job, claim, epoch: claim.epoch });
  }

  async giveBack({ id, queue, epoch }: Pick<JobRecord, "id" | "queue" | "epoch">): Promise<void> {
    const cohort = cohortOf(this.#context.mirror, queue);
    if (!this.#context.mirror.get(key.cohort(cohort))?.claims[id]) return;
    await this.#ask(cohort, { job: id, epoch });
  }

  #ask(cohort: string, ask: Omit<Ask, "resolve" | "reject">): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const asks = this.#asks.get(cohort) ?? [];
      this.#asks.set(cohort, asks);
      asks.push({ ...ask, resolve, reject });
      if (!this.#writing.has(cohort)) void this.#write(cohort);
    });
  }

  async #write(cohort: string): Promise<void> {
    this.#writing.add(cohort);
    try {
      // Whatever is asked for in the same turn is written together.
      await Promise.resolve();
      for (let asks = this.#take(cohort); asks.length > 0; asks = this.#take(cohort)) {
        try {
          const granted = await this.#apply(cohort, asks);
          for (const ask of asks) ask.resolve(ask.claim === undefined || granted.has(ask.job));
        } catch (thrown) {
          for (const ask of asks) ask.reject(thrown);
        }
      }
    } finally {
      this.#writing.delete(cohort);
    }
  }

  #take(cohort: string): Ask[] {
    const asks = this.#asks.get(cohort) ?? [];
    this.#asks.delete(cohort);
    return asks;
  }

  async #apply(cohort: string, asks: readonly Ask[]): Promise<ReadonlySet<string>> {
    const ended = new Map(asks.flatMap(({ job, claim, epoch }) => (claim ? [] : [[job as string, epoch] as const])));
    const wanted = new Map(asks.flatMap(({ job, claim }) => (claim ? [[job as string, claim] as const] : [])));
    let granted: ReadonlySet<string> = new Set();
    await this.#context.mirror.update(key.cohort(cohort), (current) => {
      // A cohort that is gone bounds nobody.
      granted = new Set(wanted.keys());
      if (!current) return undefined;
      const freed = unclaimed(current, ended);
      const { book, jobs } = claimed(freed ?? current, wanted);
      granted = jobs;
      const next = book ?? freed;
      return next && { ...next, name: cohort };
    });
    return granted;
  }

  /** Takes away claims that no running job stands on, and counts running jobs that began before there was a quota. */
  async sweep(): Promise<void> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const open = new Set<string>();
    for (const { name, claims } of mirror.under(prefix.cohorts)) {
      const ended = new Map<string, number>();
      for (const [id, claim] of Object.entries(claims)) {
        const state = claimState(claim, mirror.get(key.job(id)));
        if (state === "held") continue;
        const named = `${name} ${id} ${claim.epoch}`;
        open.add(named);
        const sinceMs = this.#openSinceMs.get(named) ?? nowMs;
        this.#openSinceMs.set(named, sinceMs);
        const overdue = nowMs - sinceMs >= openMsMax;
        if (overdue && (state === "void" || (await this.#fence(id as JobId, claim)))) ended.set(id, claim.epoch);
      }
      if (ended.size > 0)
        await mirror.update(key.cohort(name), (current) => {
          const next = current && unclaimed(current, ended);
          return next && { ...next, name };
        });
    }
    for (const named of this.#openSinceMs.keys()) if (!open.has(named)) this.#openSinceMs.delete(named);
    await this.#adopt();
  }

  /** Whoever claimed may only be slow: the job passes the epoch of the claim first, so that commit fails. */
  async #fence(id: JobId, claim: QuotaClaim): Promise<boolean> {
    const { record } = await this.#context.mirror.update(key.job(id), (current) =>
      current && claimState(claim, current) === "open" ? { ...current, epoch: claim.epoch } : undefined,
    );
    return record === undefined || claimState(claim, record) === "void";
  }

  async #adopt(): Promise<void> {
    const { mirror } = this.#context;
    const missing = new Map<string, JobRecord[]>();
    for (const job of mirror.under(prefix.jobs)) {
      if (job.status !== "running" || !job.amounts) continue;
      const cohort = cohortOf(mirror, job.queue);
      const record = mirror.get(key.cohort(cohort));
      if (!record || record.claims[job.id]) continue;
      // It may have ended, and given back what it had, without our having heard of it.
      const now = await mirror.read(key.job(job.id));
      if (now?.status === "running" && now.epoch === job.epoch)
        missing.set(cohort, [...(missing.get(cohort) ?? []), job]);
    }
    for (const [cohort, jobs] of missing)
      await mirror.update(key.cohort(cohort), (current) => {
        if (!current) return undefined;
        const claims = { ...current.claims };
        for (const { id, queue, owner, epoch, amounts } of jobs) {
          const now = mirror.get(key.job(id));
          if (!claims[id] && amounts && now?.status === "running" && now.epoch === epoch)
            claims[id] = { queue, owner, epoch, amounts };
        }
        return { ...current, claims };
      });
  }
}

/** "held": the job runs under it. "void": it does not, and cannot any more. "open": it may be about to. */
function claimState({ epoch }: QuotaClaim, job: JobRecord | undefined): "held" | "void" | "open" {
  if (!job) return "void";
  if (job.status === "running" && job.epoch === epoch) return "held";
  return job.epoch >= epoch ? "void" : "open";
}
