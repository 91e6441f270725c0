// What becomes of one machine that was fetched from a provider: a pure function of its record, of what the provider sees and
// of the PNode that joined with its invitation. The shell (instance-care.ts) performs what this decides.

import { duration } from "../../core/words/duration.ts";
import type { Offer, Seen } from "../../providers/provider.ts";
import type { PNodeRecord } from "../records/machines.ts";
import type { InstanceRecord } from "../records/providers.ts";

export interface Sight {
  readonly nowMs: number;
  /** Undefined: the provider does not see it, for so many looks in a row. */
  readonly seen: Seen | undefined;
  readonly misses: number;
  /** Which has used its invitation. */
  readonly pnode: Pick<PNodeRecord, "id" | "status" | "facts" | "limits"> | undefined;
  /** Nothing is hosted or claimed there. */
  readonly isEmpty: boolean;
  /** How long such machines take until they join. */
  readonly bootMs: number;
  /** Its provider is to end. */
  readonly isUnwanted: boolean;
}

export type Step =
  | { readonly kind: "stay"; readonly detail?: string }
  | { readonly kind: "started" }
  | { readonly kind: "joined"; readonly bootMs: number }
  /** Told to end. `blame`: the offer did not keep what it promised. */
  | { readonly kind: "end"; readonly why: string; readonly blame?: true }
  | { readonly kind: "hurry" }
  /** It is no more. `lost`: nobody had asked it to go. */
  | { readonly kind: "gone"; readonly why: string; readonly blame?: true; readonly lost?: true };

/** A start whose outcome nobody knows has shown by then. */
export const unclearMs = 60_000;
const bootsPatience = 3;
const patienceMsLeast = 180_000;
/** In a cluster's own queue. */
const queueMsMost = 6 * 3_600_000;
/** A list may miss one now and then. */
const missesMost = 3;
const handOverMs = 60_000;
/** Some of a machine is its system's. */
const memoryShareLeast = 0.8;

export function instanceStep(instance: InstanceRecord, sight: Sight): Step {
  switch (instance.status) {
    case "wanted":
      return whileWanted(instance, sight);
    case "started":
      return whileStarted(instance, sight);
    case "joined":
    case "draining":
      return whileJoined(instance, sight);
    case "ending":
      if (isGone(sight)) return { kind: "gone", why: instance.detail };
      return sight.nowMs - instance.endingWallMs > handOverMs ? { kind: "hurry" } : { kind: "stay" };
    case "ended":
      return { kind: "stay" };
  }
}

function whileWanted({ wantedWallMs }: InstanceRecord, { seen, nowMs }: Sight): Step {
  if (seen) return { kind: "started" };
  return nowMs - wantedWallMs > unclearMs ? { kind: "gone", why: "it was never started" } : { kind: "stay" };
}

function whileStarted(instance: InstanceRecord, sight: Sight): Step {
  const { seen, pnode, nowMs, bootMs } = sight;
  const sinceMs = nowMs - instance.startedWallMs;
  if (pnode) {
    const lie = lieOf(instance.offer, pnode);
    if (lie !== undefined) return { kind: "end", why: lie, blame: true };
    // It may be gone again before anybody noted that it came: that is a loss, and no fault of the offer's.
    return isGone(sight) ? lostOf(sight) : { kind: "joined", bootMs: sinceMs };
  }
  if (sight.isUnwanted) return { kind: "end", why: "its provider is being removed" };
  if (isGone(sight)) return { kind: "gone", why: `it ended before it joined${said(seen)}`, blame: true };
  if (seen?.state === "waiting") {
    if (sinceMs > queueMsMost)
      return { kind: "end", why: `it waited in the provider's queue for ${duration(sinceMs / 1000)}`, blame: true };
    return { kind: "stay", detail: seen.detail };
  }
  const patienceMs = Math.max(patienceMsLeast, bootsPatience * bootMs);
  if (sinceMs > patienceMs)
    return { kind: "end", why: `it has not joined within ${duration(patienceMs / 1000)}`, blame: true };
  return { kind: "stay" };
}

function whileJoined(instance: InstanceRecord, sight: Sight): Step {
  if (isGone(sight)) {
    const { lost, ...gone } = lostOf(sight);
    return instance.status === "draining" ? gone : { ...gone, lost };
  }
  const isAway = sight.pnode === undefined || sight.pnode.status === "left" || sight.pnode.status === "lost";
  if (isAway && sight.nowMs - instance.joinedWallMs > patienceMsLeast)
    return { kind: "end", why: "its PNode has left the network" };
  if (instance.status === "draining" && sight.isEmpty) return { kind: "end", why: instance.detail };
  return { kind: "stay" };
}

function isGone({ seen, misses }: Sight): boolean {
  return seen ? seen.state === "ended" : misses >= missesMost;
}

function lostOf({ seen }: Sight) {
  return { kind: "gone", why: `it is gone${said(seen)}`, lost: true } as const;
}

function said(seen: Seen | undefined): string {
  return seen?.detail ? `: ${seen.detail}` : "";
}

/** What the machine that came lacks of what was offered. */
function lieOf(offer: Offer, { facts, limits }: Pick<PNodeRecord, "facts" | "limits">): string | undefined {
  const cores = Math.min(limits.cpus || facts.cores, facts.cores);
  const memoryBytes = Math.min(limits.memoryBytes || facts.memoryBytes, facts.memoryBytes);
  const large = facts.gpus.filter((gpu) => gpu.memoryBytes >= memoryShareLeast * offer.gpuMemoryBytes).length;
  const came = (what: string) => `offer ${offer.name} is not what it says: ${what}`;
  if (cores < offer.cores) return came(`${offer.cores} cores were offered, ${cores} came`);
  if (large < offer.gpus) return came(`${offer.gpus} GPU(s) were offered, ${large} came`);
  if (memoryBytes < memoryShareLeast * offer.memoryBytes)
    return came(`${gigabytes(offer.memoryBytes)} of memory were offered, ${gigabytes(memoryBytes)} came`);
  return undefined;
}

function gigabytes(bytes: number): string {
  return `${Number((bytes / 2 ** 30).toFixed(1))} GB`;
}
