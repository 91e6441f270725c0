// Who is first in line: whoever waited too long, then the class, then who used little of late and who has waited. Pure.

import { type PendingJob, type Rules, rankOf, useHalfLifeMs } from "./jobs.ts";

export interface OrderView {
  readonly nowMs: number;
  /** Decayed use by owner. */
  readonly use: ReadonlyMap<string, number>;
  weightOf(job: PendingJob): number;
}

/** A class is worth more than any fair share and any age that has not passed `mustStartMs`. */
const classWorth = 1_000;
const shareWorth = 100;
const ageWorth = 100;

export function ordered(jobs: readonly PendingJob[], view: OrderView, rules: Rules): PendingJob[] {
  const shares = sharesOf(jobs, view);
  const scored = jobs.map((job) => ({ job, overdue: isOverdue(job, view.nowMs, rules), score: score(job) }));
  function score(job: PendingJob): number {
    const age = Math.min(1, Math.max(0, view.nowMs - job.submittedMs) / rules.ageMs);
    return rankOf(job.class) * classWorth + (shares.get(job.owner) ?? 1) * shareWorth + age * ageWorth;
  }
  scored.sort((a, b) => {
    if (a.overdue !== b.overdue) return a.overdue ? -1 : 1;
    if (!a.overdue && a.score !== b.score) return b.score - a.score;
    return a.job.submittedMs - b.job.submittedMs || (a.job.id < b.job.id ? -1 : 1);
  });
  return scored.map(({ job }) => job);
}

export function isOverdue({ submittedMs }: PendingJob, nowMs: number, { mustStartMs }: Rules): boolean {
  return nowMs - submittedMs >= mustStartMs;
}

/** 1 for who used nothing, 1/2 for who used just its share, towards 0 for who used much more. */
function sharesOf(jobs: readonly PendingJob[], view: OrderView): Map<string, number> {
  const weights = new Map<string, number>();
  for (const job of jobs) weights.set(job.owner, Math.max(weights.get(job.owner) ?? 0, view.weightOf(job)));
  for (const owner of view.use.keys()) if (!weights.has(owner)) weights.set(owner, 1);
  const weightAll = Array.from(weights.values()).reduce((sum, weight) => sum + weight, 0);
  const useAll = Array.from(view.use.values()).reduce((sum, use) => sum + use, 0);
  const shares = new Map<string, number>();
  for (const [owner, weight] of weights) {
    const share = useAll > 0 ? (view.use.get(owner) ?? 0) / useAll : 0;
    const due = weightAll > 0 ? weight / weightAll : 1;
    shares.set(owner, due > 0 ? 2 ** -(share / due) : 0);
  }
  return shares;
}

/** A stretch of time in which a job ran; what it used counts half after each half-life. */
export interface Run {
  readonly fromMs: number;
  /** Absent: it still runs. */
  readonly toMs?: number;
}

/** Milliseconds of running, each weighed by how long ago it was. */
export function decayedMs({ fromMs, toMs }: Run, nowMs: number): number {
  const end = Math.min(nowMs, toMs ?? nowMs);
  if (end <= fromMs) return 0;
  const scale = useHalfLifeMs / Math.LN2;
  return scale * (2 ** ((end - nowMs) / useHalfLifeMs) - 2 ** ((fromMs - nowMs) / useHalfLifeMs));
}

export function decayed(value: number, asOfMs: number, nowMs: number): number {
  return value * 2 ** (-Math.max(0, nowMs - asOfMs) / useHalfLifeMs);
}
