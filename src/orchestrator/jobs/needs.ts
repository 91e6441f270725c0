// Jobs that need each other, in waves: each comes after those it needs, and those of one wave need nobody of it. Pure.

import { fail } from "../../core/errors.ts";

export interface Needing {
  readonly id: string;
  readonly name: string;
  /** Ids or names; those of nobody here are somebody else's affair. */
  readonly needs: readonly string[];
}

/** Fails with the circle if there is one. */
export function inWavesOfNeeds<T extends Needing>(jobs: readonly T[]): T[][] {
  const byName = new Map<string, T>();
  for (const job of jobs) {
    byName.set(job.id, job);
    if (job.name !== "") byName.set(job.name, job);
  }
  const waves: T[][] = [];
  const waveOf = new Map<T, number>();
  const visit = (job: T, way: readonly T[]): number => {
    const at = way.indexOf(job);
    if (at >= 0) {
      const circle = [...way.slice(at), job].map(({ id, name }) => name || id);
      fail(
        "invalid_argument",
        `these jobs need each other in a circle, so that none could ever start: ${circle.join(" needs ")}`,
      );
    }
    const known = waveOf.get(job);
    if (known !== undefined) return known;
    let wave = 0;
    for (const need of job.needs) {
      const other = byName.get(need);
      if (other) wave = Math.max(wave, visit(other, [...way, job]) + 1);
    }
    waveOf.set(job, wave);
    const together = waves[wave] ?? [];
    waves[wave] = together;
    together.push(job);
    return wave;
  };
  for (const job of jobs) visit(job, []);
  return waves;
}
