// What the running jobs of a queue world use at one moment, beside what machines lend and quotas allow.

import type { Held, PendingJob } from "../../src/scheduler/jobs.ts";
import type { FleetNode } from "../../src/scheduler/placement/types.ts";
import type { QuotaBook } from "../../src/scheduler/quota.ts";

interface Used {
  readonly holds: readonly Held[];
  readonly entry: { readonly job: PendingJob };
}

/** A sentence for each bound that is passed. */
export function* overuse(
  running: readonly Used[],
  nodes: readonly FleetNode[],
  books: Iterable<QuotaBook>,
): Generator<string> {
  const used = new Map<string, number>();
  const quota = new Map<string, number>();
  for (const { holds, entry } of running) {
    for (const { pnode, memoryBytes } of holds) used.set(pnode, (used.get(pnode) ?? 0) + memoryBytes);
    quota.set(entry.job.queue, (quota.get(entry.job.queue) ?? 0) + entry.job.amounts.cores);
  }
  for (const { id, memoryBytes } of nodes)
    if ((used.get(id) ?? 0) > memoryBytes)
      yield `${used.get(id)} bytes are in use on ${id}, which lends ${memoryBytes}`;
  for (const { queues } of books) {
    const rules = Object.values(queues);
    const all = rules.reduce((sum, { name }) => sum + (quota.get(name) ?? 0), 0);
    const nominal = rules.reduce((sum, one) => sum + (one.nominal.cores ?? Number.POSITIVE_INFINITY), 0);
    if (all > nominal) yield `${all} cores of a cohort are in use, its quota is ${nominal}`;
    for (const { name, nominal: own, borrowMax } of rules) {
      const most = (own.cores ?? Number.POSITIVE_INFINITY) + (borrowMax.cores ?? Number.POSITIVE_INFINITY);
      if ((quota.get(name) ?? 0) > most) yield `queue ${name} uses ${quota.get(name)} cores of at most ${most}`;
    }
  }
}
