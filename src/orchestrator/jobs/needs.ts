// Jobs that need each other, in an order in which each comes after those it needs. Pure.

import { fail } from "../../core/errors.ts";

export interface Needing {
  readonly id: string;
  readonly name: string;
  /** Ids or names; those of nobody here are somebody else's affair. */
  readonly needs: readonly string[];
}

/** Fails with the circle if there is one. */
export function inOrderOfNeeds<T extends Needing>(jobs: readonly T[]): T[] {
  const byName = new Map<string, T>();
  for (const job of jobs) {
    byName.set(job.id, job);
    if (job.name !== "") byName.set(job.name, job);
  }
  const order: T[] = [];
  const done = new Set<T>();
  const visit = (job: T, way: readonly T[]): void => {
    const at = way.indexOf(job);
    if (at >= 0) {
      const circle = [...way.slice(at), job].map(({ id, name }) => name || id);
      fail(
        "invalid_argument",
        `these jobs need each other in a circle, so that none could ever start: ${circle.join(" needs ")}`,
      );
    }
    if (done.has(job)) return;
    for (const need of job.needs) {
      const other = byName.get(need);
      if (other) visit(other, [...way, job]);
    }
    done.add(job);
    order.push(job);
  };
  for (const job of jobs) visit(job, []);
  return order;
}
