// What experience says of an offer: how soon its machines come, how often they are taken away, and whether it keeps what it
// promises. One that does not is left alone for a while, longer each time. Pure.

import type { Offer } from "../../providers/provider.ts";
import type { OfferHistory } from "../records/providers.ts";

export const nothingLearned: OfferHistory = { losses: 0, hours: 0, broken: 0, blockedUntilWallMs: 0, why: "" };

const blockMsFirst = 5 * 60_000;
const blockMsMost = 4 * 3_600_000;
/** The newest boot counts so much. */
const newestShare = 0.3;
/** Losses an hour before anything is known, as if so many hours had shown it. */
const spotLossesUsual = 0.1;
const lossesUsual = 0.005;
const usualHours = 10;

export function afterJoin(before: OfferHistory, bootMs: number): OfferHistory {
  const known = before.bootMs;
  return {
    ...before,
    bootMs: known === undefined ? bootMs : known + newestShare * (bootMs - known),
    ...{ broken: 0, blockedUntilWallMs: 0, why: "" },
  };
}

export function afterBroken(before: OfferHistory, nowMs: number, why: string): OfferHistory {
  const blockMs = Math.min(blockMsMost, blockMsFirst * 2 ** before.broken);
  return { ...before, broken: before.broken + 1, blockedUntilWallMs: nowMs + blockMs, why };
}

export function afterEnd(before: OfferHistory, joinedMs: number, isLost: boolean): OfferHistory {
  return {
    ...before,
    hours: before.hours + Math.max(0, joinedMs) / 3_600_000,
    losses: before.losses + (isLost ? 1 : 0),
  };
}

export function isBlocked({ blockedUntilWallMs }: OfferHistory, nowMs: number): boolean {
  return blockedUntilWallMs > nowMs;
}

export function lossPerHour({ losses, hours }: OfferHistory, { spot }: Pick<Offer, "spot">): number {
  return (losses + (spot ? spotLossesUsual : lossesUsual) * usualHours) / (hours + usualHours);
}
