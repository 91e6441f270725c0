// When each of the crew was last heard, by oneself or by others who say so. All times are of this process' monotonic
// clock: others tell ages, so nobody has to trust another's clock; an age counts the way on which it came.

export interface Sighting {
  readonly atMs: number;
  readonly incarnation: string;
  /** Where it said that it is; empty if it did not. */
  readonly routes: string;
}

export type Sightings = ReadonlyMap<string, Sighting>;

export interface ToldSighting {
  readonly pnode: string;
  readonly incarnation: string;
  readonly ageMs: number;
  readonly routes: string;
}

export function withSightings(known: Sightings, told: readonly ToldSighting[], nowMs: number): Sightings {
  const next = new Map(known);
  for (const { pnode, incarnation, ageMs, routes } of told) {
    const before = next.get(pnode);
    const atMs = nowMs - Math.max(0, ageMs);
    if (before === undefined || before.atMs < atMs)
      next.set(pnode, { atMs, incarnation, routes: routes || before?.routes || "" });
  }
  return next;
}

export function areAtSamePlaces(some: Sightings, others: Sightings): boolean {
  return (
    some === others ||
    (some.size === others.size && [...some].every(([pnode, { routes }]) => others.get(pnode)?.routes === routes))
  );
}

/** While this process stood still it heard nobody, and nobody was silent. */
export function afterStandstill(known: Sightings, stoodStillMs: number, nowMs: number): Sightings {
  return new Map(
    Array.from(known, ([pnode, seen]) => [pnode, { ...seen, atMs: Math.min(nowMs, seen.atMs + stoodStillMs) }]),
  );
}

export function toldOf(known: Sightings, nowMs: number): ToldSighting[] {
  return Array.from(known, ([pnode, { atMs, incarnation, routes }]) => ({
    pnode,
    incarnation,
    ageMs: Math.max(0, nowMs - atMs),
    routes,
  }));
}
