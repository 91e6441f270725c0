// Room for checks. Whoever repeats an interval of a VNode needs the VNode's memory beside what it hosts itself: if those who may check are
// filled to the brim, a session whose results all have to be checked waits for ever. So they keep room for the largest of its VNodes, as long
// as everything finds a place without it. A further copy of a VNode is no reason to give it up: two owners that contradict each other wait for a third.

import type { Fleet } from "./fleet.ts";
import { type FleetNode, type PlacementPlan, type Policy, trustLevel } from "./types.ts";

export interface AuditRoom {
  readonly bytes: number;
  /** May be asked to repeat what others computed. */
  readonly mayCheck: (node: FleetNode) => boolean;
  /** Some of the results have to be checked before anything is final: better to be less careful otherwise. */
  readonly isNeeded: boolean;
}

const known = trustLevel("known");
const trusted = trustLevel("trusted");

export function auditRoomOf(
  { vnodes, tied = [] }: PlacementPlan,
  fleet: Fleet,
  { checked }: Policy,
): AuditRoom | undefined {
  if (checked === undefined) return undefined;
  const bytesOf = new Map(vnodes.map(({ id, memoryBytes }) => [id, memoryBytes]));
  const repeated = [...vnodes.map(({ id }) => [id]), ...tied];
  const bytes = repeated.reduce(
    (most, group) =>
      Math.max(
        most,
        group.reduce((sum, id) => sum + (bytesOf.get(id) ?? 0), 0),
      ),
    0,
  );
  // A network in which nobody is known yet has nobody else to begin with.
  const least = checked === "proven" ? trusted : fleet.untrusted < fleet.size ? known : 0;
  return { bytes, mayCheck: ({ trust }) => trustLevel(trust) >= least, isNeeded: checked !== "sampled" };
}
