// What the store holds of providers and of the machines that were started there. An instance's record is written before
// anything is started, so whatever runs somewhere is known; secrets are in neither, only paths of files.

import type { PNodeId } from "../../core/ids.ts";
import type { Offer } from "../../providers/provider.ts";

export interface ProviderRecord {
  readonly name: string;
  readonly kind: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** As declared; none: the provider finds out by itself. */
  readonly offers: readonly Offer[];
  /** As the provider said last. */
  readonly found: readonly Offer[];
  readonly limits: ProviderBounds;
  readonly createdWallMs: number;
  /** It is to end, with all that it started. */
  readonly removing?: true;
  /** Of instances whose records are gone; the last of them, so that none is counted twice. */
  readonly spent: number;
  readonly countedLast: string;
  /** What was learned of each offer. */
  readonly learned: Readonly<Record<string, OfferHistory>>;
  readonly lastStartWallMs: number;
  /** What does not work; absent if all is well. */
  readonly problem?: string;
}

export interface ProviderBounds {
  readonly least: number;
  readonly most: number;
  /** 0: no bound. */
  readonly budgetPerHour: number;
  readonly budgetTotal: number;
  readonly idleMs: number;
  readonly coolDownMs: number;
}

export interface OfferHistory {
  /** How long it took until one joined. */
  readonly bootMs?: number;
  /** How many were lost that nobody sent away, and how long all of them were there. */
  readonly losses: number;
  readonly hours: number;
  /** Offered and not kept, in a row. */
  readonly broken: number;
  readonly blockedUntilWallMs: number;
  readonly why: string;
}

export type InstanceStatus = "wanted" | "started" | "joined" | "draining" | "ending" | "ended";

export interface InstanceRecord {
  readonly provider: string;
  readonly id: string;
  /** As it was when this was wanted. */
  readonly offer: Offer;
  /** The id of the invitation by which it joins: whoever has used it is this one. */
  readonly invite: string;
  readonly status: InstanceStatus;
  readonly wantedWallMs: number;
  readonly startedWallMs: number;
  readonly joinedWallMs: number;
  readonly endingWallMs: number;
  readonly endedWallMs: number;
  readonly pnode?: PNodeId;
  /** For people: why it waits, or how it ended. */
  readonly detail: string;
}

export function isThere({ status }: Pick<InstanceRecord, "status">): boolean {
  return status !== "ended";
}

/** From when it was started: clusters charge for waiting machines, too. */
export function costOf({ offer, startedWallMs, endedWallMs }: InstanceRecord, nowMs: number): number {
  if (startedWallMs === 0) return 0;
  return (Math.max(0, (endedWallMs || nowMs) - startedWallMs) / 3_600_000) * offer.pricePerHour;
}
