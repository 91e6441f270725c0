// What is made good of losses: in the order in which they stand, as far as there is something to pay with, and each once,
// however many are convicted of what they come from.

import type { PNodeId } from "../../core/ids.ts";
import type { Share } from "./block.ts";

/** The first of them that so many credits pay for. */
export function paidWith(losses: readonly Share[], credits: number): Share[] {
  let left = credits;
  return losses.flatMap(({ pnode, credits: lost }) => {
    const paid = Math.min(left, lost);
    left -= paid;
    return paid > 0 ? [{ pnode, credits: paid }] : [];
  });
}

/** What is left of them once so much was made good to each. */
export function lossesLeft(losses: readonly Share[], made: ReadonlyMap<PNodeId, number>): Share[] {
  const open = new Map(made);
  return losses.flatMap(({ pnode, credits }) => {
    const paid = Math.min(credits, open.get(pnode) ?? 0);
    open.set(pnode, (open.get(pnode) ?? 0) - paid);
    return credits > paid ? [{ pnode, credits: credits - paid }] : [];
  });
}

export function sumsOf(shares: readonly Share[]): Map<PNodeId, number> {
  const sums = new Map<PNodeId, number>();
  for (const { pnode, credits } of shares) sums.set(pnode, (sums.get(pnode) ?? 0) + credits);
  return sums;
}
