// Queues for tests of the scheduler: jobs of one sort unless told otherwise, on fleets of placement.testing.ts.

import { decide } from "./decide.ts";
import { type Decisions, type PendingJob, type QueueView, type Rules, type RunningJob, rulesDefault } from "./jobs.ts";
import { requirementsNone } from "./placement/types.ts";
import { type QueueRules, type QuotaBook, type QuotaClaim, queueRulesDefault } from "./quota.ts";

export const megabyte = 2 ** 20;
export const minute = 60_000;

/** As many VNodes of 100 MB as are said, for ten minutes. */
export function job(id: string, vnodes = 1, changes: Partial<PendingJob> = {}): PendingJob {
  return {
    id,
    owner: "anna",
    queue: "default",
    class: "normal",
    submittedMs: 0,
    limitMs: 10 * minute,
    demand: { units: [{ memoryBytes: 100 * megabyte, count: vnodes }], vnodes },
    policy: { bits: 1, engine: "native", numericsClass: "", requirements: requirementsNone },
    amounts: { cores: vnodes, gpus: 0, memoryBytes: vnodes * 100 * megabyte, jobs: 1 },
    needs: [],
    ...changes,
  };
}

export function running(id: string, holds: RunningJob["holds"], changes: Partial<RunningJob> = {}): RunningJob {
  return {
    id,
    owner: "bert",
    queue: "default",
    class: "normal",
    sinceMs: 0,
    endMs: 0,
    holds,
    yields: false,
    ...changes,
  };
}

export function queue(name: string, changes: Partial<QueueRules> = {}): QueueRules {
  return { name, ...queueRulesDefault, ...changes };
}

export function book(queues: readonly QueueRules[], claims: Readonly<Record<string, QuotaClaim>> = {}): QuotaBook {
  return { queues: Object.fromEntries(queues.map((one) => [one.name, one])), claims };
}

export function view(changes: Partial<QueueView> = {}): QueueView {
  const books = changes.books ?? new Map();
  const cohortOf = (name: string) => {
    for (const [cohort, { queues }] of books) if (queues[name]) return cohort;
    return name;
  };
  return {
    nowMs: 0,
    nodes: [],
    pending: [],
    running: [],
    books,
    cohortOf,
    use: new Map(),
    creditsOf: () => undefined,
    ...changes,
  };
}

export function decided(changes: Partial<QueueView>, rules: Partial<Rules> = {}): Decisions {
  return decide(view(changes), { ...rulesDefault, ...rules });
}

export const started = ({ starts }: Decisions) => starts.map((start) => start.job.id);
