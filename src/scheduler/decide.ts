// One pass over the queue: who starts now, who gives way, and why everybody else waits. A pure function of the fleet, of
// what is claimed and of the queue: every orchestrator that sees the same decides the same.

import type { Decisions, PendingJob, QueueView, Reason, Rules, Start } from "./jobs.ts";
import { isOverdue, ordered } from "./order.ts";
import { victimsForQuota, victimsForRoom } from "./preempt.ts";
import { type QuotaRefusal, Usage } from "./quota.ts";
import { policyKey, Timeline } from "./timeline.ts";

export function decide(view: QueueView, rules: Rules): Decisions {
  return new Pass(view, rules).decide();
}

class Pass {
  readonly #view: QueueView;
  readonly #rules: Rules;
  readonly #timeline: Timeline;
  readonly #usages = new Map<string, Usage>();
  readonly #failed = new Map<string, (readonly [vnodes: number, limitMs: number])[]>();
  /** When jobs of a kind got room at the earliest. */
  readonly #earliest = new Map<string, { vnodes: number; limitMs: number; atMs: number }[]>();
  readonly #never = new Map<string, boolean>();
  /** Who has waited too long for a quota: nobody behind it may take more of that. */
  readonly #closed = new Map<string, string>();
  readonly #starts: Start[] = [];
  readonly #preempts: { victim: string; for: string }[] = [];
  readonly #waits = new Map<string, { reason: Reason; position: number }>();
  #reserved = 0;
  #head = "";

  constructor(view: QueueView, rules: Rules) {
    this.#view = view;
    this.#rules = rules;
    this.#timeline = new Timeline(view.nowMs, view.nodes, view.running);
  }

  decide(): Decisions {
    const { nowMs, use, pending, books, cohortOf } = this.#view;
    const weightOf = ({ queue }: PendingJob) => books.get(cohortOf(queue))?.queues[queue]?.weight ?? 1;
    let position = 0;
    for (const job of ordered(pending, { nowMs, use, weightOf }, this.#rules)) {
      const reason = this.#reason(job);
      if (reason) this.#waits.set(job.id, { reason, position: ++position });
    }
    return { starts: this.#starts, preempts: this.#preempts, waits: this.#waits };
  }

  /** Undefined if it starts. */
  #reason(job: PendingJob): Reason | undefined {
    if (this.#isNever(job)) return { code: "never" };
    if (job.needs.length > 0) return { code: "needs", needs: job.needs };
    const credits = this.#view.creditsOf(job.owner);
    if (credits !== undefined && credits <= 0) return { code: "credits" };
    return this.#quotaReason(job) ?? this.#roomReason(job);
  }

  #isNever(job: PendingJob): boolean {
    // With nobody there nothing is known about what could be.
    if (this.#view.nodes.length === 0) return false;
    const name = shapeOf(job);
    let never = this.#never.get(name);
    if (never === undefined) {
      never = !this.#timeline.couldEver(job);
      this.#never.set(name, never);
    }
    return never;
  }

  #quotaReason(job: PendingJob): Reason | undefined {
    const refusal = this.#usage(job.queue)?.refusal(job);
    const before = closedNames(job, this.#view.cohortOf(job.queue)).find((name) => this.#closed.has(name));
    if (before !== undefined) return { code: "behind", job: this.#closed.get(before) as string };
    if (!refusal) return undefined;
    this.#reclaim(job, refusal);
    if (isOverdue(job, this.#view.nowMs, this.#rules)) this.#close(job, refusal);
    return { code: "quota", refusal };
  }

  #reclaim(job: PendingJob, refusal: QuotaRefusal): void {
    const victims = victimsForQuota(job, refusal, this.#view, this.#rules) ?? [];
    this.#preempt(job, victims);
  }

  #preempt(job: PendingJob, victims: readonly { readonly id: string }[]): void {
    for (const { id } of victims)
      if (!this.#preempts.some(({ victim }) => victim === id)) this.#preempts.push({ victim: id, for: job.id });
  }

  #close(job: PendingJob, { whose }: QuotaRefusal): void {
    const [owner, queue, cohort] = closedNames(job, this.#view.cohortOf(job.queue));
    const name = whose === "owner" ? owner : whose === "queue" ? queue : cohort;
    if (!this.#closed.has(name)) this.#closed.set(name, job.id);
  }

  #roomReason(job: PendingJob): Reason | undefined {
    if (this.#starts.length >= this.#rules.startsMax) return { code: "starting" };
    const allocation = this.#isHopeless(job) ? undefined : this.#timeline.fit(job);
    if (allocation) {
      this.#starts.push({ job, kept: this.#reserved > 0 ? this.#timeline.kept(job.limitMs) : new Map() });
      this.#timeline.hold(allocation, this.#view.nowMs, job.limitMs);
      this.#usage(job.queue)?.add(job);
      return undefined;
    }
    this.#fails(job);
    const first = this.#head === "";
    // Room made for one further back would go to those before it.
    if (first) this.#preempt(job, victimsForRoom(job, this.#view, this.#timeline, this.#rules) ?? []);
    if (first) this.#head = job.id;
    if (this.#reserved >= this.#rules.reservations && this.#timeline.effort >= this.#rules.effort)
      return { code: "behind", job: this.#head };
    this.#reserved++;
    return { code: "room", ...this.#reserve(job) };
  }

  /** What is free only gets less in a pass: nothing larger or longer of the same kind fits earlier than what was found. */
  #reserve(job: PendingJob): { readonly atMs: number } | undefined {
    const vnodes = job.demand?.vnodes ?? 0;
    const name = kindOf(job);
    const known = this.#earliest.get(name) ?? [];
    let notBeforeMs = this.#view.nowMs;
    for (const one of known)
      if (one.vnodes <= vnodes && one.limitMs <= job.limitMs) notBeforeMs = Math.max(notBeforeMs, one.atMs);
    if (notBeforeMs === Number.POSITIVE_INFINITY) return undefined;
    const found = this.#timeline.reserve(job, notBeforeMs);
    known.push({ vnodes, limitMs: job.limitMs, atMs: found?.atMs ?? Number.POSITIVE_INFINITY });
    this.#earliest.set(name, known);
    return found && { atMs: found.atMs };
  }

  /** A smaller or shorter one of the same shape has found no room in this pass. */
  #isHopeless(job: PendingJob): boolean {
    const vnodes = job.demand?.vnodes ?? 0;
    const known = this.#failed.get(kindOf(job));
    return known?.some(([count, limitMs]) => vnodes >= count && job.limitMs >= limitMs) ?? false;
  }

  #fails(job: PendingJob): void {
    const name = kindOf(job);
    const known = this.#failed.get(name) ?? [];
    known.push([job.demand?.vnodes ?? 0, job.limitMs]);
    this.#failed.set(name, known);
  }

  #usage(queue: string): Usage | undefined {
    const cohort = this.#view.cohortOf(queue);
    const book = this.#view.books.get(cohort);
    if (!book) return undefined;
    let usage = this.#usages.get(cohort);
    if (!usage) {
      usage = new Usage(book);
      this.#usages.set(cohort, usage);
    }
    return usage;
  }
}

function closedNames({ owner, queue }: PendingJob, cohort: string): [string, string, string] {
  return [`owner ${queue} ${owner}`, `queue ${queue}`, `cohort ${cohort}`];
}

/** Asked for several times in a pass, of each job. */
const kinds = new WeakMap<PendingJob, string>();

/** Jobs of one kind differ in nothing but their number of VNodes. */
function kindOf(job: PendingJob): string {
  const known = kinds.get(job);
  if (known !== undefined) return known;
  const { policy, demand } = job;
  const kind = `${policyKey(policy)}|${demand?.units.map(({ memoryBytes }) => memoryBytes).join("+") ?? ""}`;
  kinds.set(job, kind);
  return kind;
}

function shapeOf(job: PendingJob): string {
  return `${kindOf(job)}|${job.demand?.units.map(({ count }) => count).join("+") ?? ""}`;
}
