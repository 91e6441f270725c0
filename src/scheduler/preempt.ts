// Who gives way: to an urgent job those of lower classes, to a queue that wants its own quota back those who borrowed it.
// A victim is always strictly below whoever it gives way to, so nobody ever preempts in a circle. Pure.

import { type PendingJob, type QueueView, type Rules, type RunningJob, rankOf } from "./jobs.ts";
import { type QuotaRefusal, Usage } from "./quota.ts";
import type { Timeline } from "./timeline.ts";

/** Classes below this wait for room instead of taking it. */
const preemptsFrom = rankOf("urgent");

/** Fewest and youngest that make room for the whole gang; undefined if even all of them would not. */
export function victimsForRoom(
  job: PendingJob,
  { running, nowMs }: Pick<QueueView, "running" | "nowMs">,
  timeline: Timeline,
  rules: Rules,
): RunningJob[] | undefined {
  if (rankOf(job.class) < preemptsFrom) return undefined;
  // What gives way already is as good as free.
  const going = running.filter(({ yields }) => yields).flatMap(({ holds }) => holds);
  if (timeline.fit(job, nowMs, going)) return [];
  const able = running
    .filter((one) => !one.yields && rankOf(one.class) < rankOf(job.class) && nowMs - one.sinceMs >= rules.quantumMs)
    .sort((a, b) => rankOf(a.class) - rankOf(b.class) || b.sinceMs - a.sinceMs || (a.id < b.id ? -1 : 1))
    .slice(0, rules.victimsMax);
  const victims: RunningJob[] = [];
  const fits = (those: readonly RunningJob[]) =>
    timeline.fit(job, nowMs, [...going, ...those.flatMap(({ holds }) => holds)]) !== undefined;
  for (const one of able) {
    victims.push(one);
    if (fits(victims)) return withoutNeedless(victims, fits);
  }
  return undefined;
}

function withoutNeedless(victims: readonly RunningJob[], fits: (those: readonly RunningJob[]) => boolean) {
  let kept = [...victims];
  for (const one of victims) {
    const fewer = kept.filter((other) => other !== one);
    if (fits(fewer)) kept = fewer;
  }
  return kept;
}

/** Youngest borrowers of the cohort, as many as give back what the queue's own quota lacks. */
export function victimsForQuota(
  job: PendingJob,
  refusal: QuotaRefusal,
  view: Pick<QueueView, "running" | "nowMs" | "books" | "cohortOf">,
  rules: Rules,
): RunningJob[] | undefined {
  const book = view.books.get(view.cohortOf(job.queue));
  if (!book || !refusal.reclaims) return undefined;
  const usage = new Usage(book);
  for (const { id, yields } of view.running) {
    const claim = book.claims[id];
    if (claim && yields) usage.add(claim, -1);
  }
  const wanted = { queue: job.queue, owner: job.owner, amounts: job.amounts };
  if (!usage.refusal(wanted)) return [];
  const able = view.running
    .filter((one) => !one.yields && one.queue !== job.queue && view.nowMs - one.sinceMs >= rules.quantumMs)
    .sort((a, b) => rankOf(a.class) - rankOf(b.class) || b.sinceMs - a.sinceMs || (a.id < b.id ? -1 : 1));
  const victims: RunningJob[] = [];
  for (const one of able) {
    const claim = book.claims[one.id];
    if (!claim || usage.borrowed(one.queue, refusal.resource) <= 0 || claim.amounts[refusal.resource] === 0) continue;
    usage.add(claim, -1);
    victims.push(one);
    if (!usage.refusal(wanted)) return victims;
    if (victims.length >= rules.victimsMax) break;
  }
  return undefined;
}
