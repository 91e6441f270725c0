// What chaos costs: how long each kill held the session up, and how much speed was left.

export interface Progress {
  readonly atMs: number;
  /** Steps that every VNode has completed. */
  readonly step: number;
}

/** One in-flight step may end without the victim; the one after it cannot. */
const stepsToRecover = 2;

/** Time from a kill until the session is `stepsToRecover` steps further; undefined if the log ends before. */
export function recoveryMs(killedMs: number, log: readonly Progress[]): number | undefined {
  const before = log.findLast(({ atMs }) => atMs <= killedMs);
  if (before === undefined) return undefined;
  const after = log.find(({ atMs, step }) => atMs > killedMs && step >= before.step + stepsToRecover);
  return after && after.atMs - killedMs;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** Steps per second over a log. */
export function rate(log: readonly Progress[]): number {
  const [first, last] = [log[0], log.at(-1)];
  if (first === undefined || last === undefined || last.atMs === first.atMs) return Number.NaN;
  return ((last.step - first.step) * 1000) / (last.atMs - first.atMs);
}
