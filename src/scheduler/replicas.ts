// How many replicas a served model should have, from what is asked of it: a pure function of requests under way, of how long
// the slowest of them waits for its first word, and of how long nobody has asked. To zero and back where that is allowed.

export interface ReplicaLoad {
  readonly least: number;
  readonly most: number;
  readonly current: number;
  /** Of those, the ones that have their weights. */
  readonly ready: number;
  /** Requests under way at all orchestrators together. */
  readonly busy: number;
  /** The longest that a request waits, or waited lately, for its first word. */
  readonly waitMs: number;
  readonly sinceAskedMs: number;
  readonly sinceChangeMs: number;
}

export interface ReplicaRules {
  /** As many requests a replica answers side by side without anybody noticing. */
  readonly busyEach: number;
  /** Whoever waits longer for the first word shows that there are too few. */
  readonly waitMsMost: number;
  readonly upCoolDownMs: number;
  readonly downCoolDownMs: number;
  /** The last one goes when nobody has asked for so long. */
  readonly idleMs: number;
}

export const replicaRulesDefault: ReplicaRules = {
  busyEach: 4,
  waitMsMost: 5_000,
  upCoolDownMs: 20_000,
  downCoolDownMs: 120_000,
  idleMs: 300_000,
};

export function wantedReplicas(load: ReplicaLoad, rules: ReplicaRules = replicaRulesDefault): number {
  const { least, most, current, ready, busy, waitMs, sinceAskedMs, sinceChangeMs } = load;
  const within = (count: number) => Math.min(most, Math.max(least, count));
  if (current < least || current > most) return within(current);
  if (current === 0) return within(busy > 0 ? 1 : 0);
  const byBusy = Math.ceil(busy / rules.busyEach);
  // While one is on its way, waiting shows nothing new.
  const byWait = waitMs > rules.waitMsMost && busy > 0 && ready >= current ? current + 1 : 0;
  const up = Math.max(byBusy, byWait);
  // Never more than twice as many at once: what is on its way has not helped yet.
  if (up > current) return sinceChangeMs < rules.upCoolDownMs ? current : within(Math.min(up, 2 * current));
  if (sinceChangeMs < rules.downCoolDownMs || waitMs > rules.waitMsMost / 2) return current;
  if (current > 1) return byBusy < current ? within(current - 1) : current;
  return busy === 0 && sinceAskedMs >= rules.idleMs ? within(0) : current;
}
