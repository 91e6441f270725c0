// When one orchestrator takes another for dead. Pure: presence.ts reads the records, calls whoever stands still and acts.
// Each counts up its own record; what counts is how long it stands still on the reader's own monotonic clock.

import type { OrchestratorRecord } from "../../records/machines.ts";

export interface Sighting {
  readonly record: OrchestratorRecord;
  readonly version: number;
  readonly changedMs: number;
  /** Reads since then; a clock that leaps ahead makes nobody look dead. */
  readonly unchangedReads: number;
  /** Its process is gone: connections to it are refused. */
  readonly refuses: boolean;
}

export interface Sightings {
  readonly byId: ReadonlyMap<string, Sighting>;
  /** When the records were last read. */
  readonly readMs: number;
  /** The store did not answer since: records may have stood still because nobody could write. */
  readonly interrupted: boolean;
}

const unchangedReadsLeast = 2;
const probesMax = 5;
/** Records of orchestrators that died this long ago are removed by whoever notices. */
const forgetMs = 600_000;

export const nobodySeen: Sightings = { byId: new Map(), readMs: Number.NEGATIVE_INFINITY, interrupted: false };

export function afterRead(
  before: Sightings,
  found: readonly { readonly record: OrchestratorRecord; readonly version: number }[],
  nowMs: number,
): Sightings {
  const byId = new Map<string, Sighting>();
  for (const { record, version } of found) {
    const known = before.byId.get(record.id);
    const stands =
      known === undefined || known.version !== version || before.interrupted
        ? { changedMs: nowMs, unchangedReads: 0, refuses: false }
        : { ...known, unchangedReads: known.unchangedReads + 1 };
    byId.set(record.id, { ...stands, record, version });
  }
  return { byId, readMs: nowMs, interrupted: false };
}

export function afterOutage(before: Sightings): Sightings {
  return { ...before, interrupted: true };
}

/** One that was called refused the connection, unless something newer is known of it. */
export function afterRefusal(before: Sightings, called: Sighting): Sightings {
  const { id } = called.record;
  if (before.byId.get(id) !== called) return before;
  return { ...before, byId: new Map(before.byId).set(id, { ...called, refuses: true }) };
}

/** Only time in which the store could be read counts: an outage makes nobody look dead. */
export function isDead({ readMs }: Sightings, seen: Sighting, expiryMs: number): boolean {
  if (seen.refuses) return true;
  return readMs - seen.changedMs >= expiryMs && seen.unchangedReads >= unchangedReadsLeast;
}

/** Whose record stands still is called: a refusal spares the wait. */
export function worthCalling({ refuses, unchangedReads }: Sighting): boolean {
  return !refuses && unchangedReads >= 1 && unchangedReads <= probesMax;
}

export function isForgettable({ readMs }: Sightings, seen: Sighting): boolean {
  return readMs - seen.changedMs >= forgetMs;
}

/** Somebody died or said goodbye between the two: leases are free that nobody has looked at. */
export function somebodyWent(before: Sightings, now: Sightings, expiryMs: number): boolean {
  for (const [id, seen] of before.byId) {
    if (isDead(before, seen, expiryMs)) continue;
    const later = now.byId.get(id);
    if (later === undefined || isDead(now, later, expiryMs)) return true;
  }
  return false;
}
