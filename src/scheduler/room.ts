// The room on one PNode: what its owner lends, and who has claimed how much of it. Pure: whoever keeps a room's record
// changes it by compare-and-set with `granted` and `withoutClaims`, so no two deciders ever hand out the same room.

import type { VNodeId, WorkloadId } from "../core/ids.ts";

/** Room for one VNode, claimed before the PNode becomes its owner. */
export interface Claim {
  /** The session or replica that the VNode belongs to. */
  readonly session: WorkloadId;
  readonly vnode: VNodeId;
  /** The epoch at which the PNode is to become an owner: once the VNode has passed it, the claim is held or void. */
  readonly epoch: number;
  readonly memoryBytes: number;
  /** Reserved for the workload, once however many of its VNodes are on the PNode. */
  readonly gpus: number;
}

export interface Room {
  /** Of the PNode's lives (see PNodeRecord) the one whose claims these are; claims of earlier ones ended with them. */
  readonly life: number;
  /** By the claim's own id, which the owner's entry in the VNode's record repeats. */
  readonly claims: Readonly<Record<string, Claim>>;
}

export interface Lent {
  readonly memoryBytes: number;
  readonly gpus: number;
}

/** What one workload wants of one PNode: all of it or nothing. */
export interface ClaimGroup {
  readonly workload: WorkloadId;
  readonly claims: Readonly<Record<string, Claim>>;
}

export interface RoomUse {
  readonly memoryBytes: number;
  readonly gpus: number;
  /** VNodes by workload. */
  readonly workloads: ReadonlyMap<string, number>;
}

/** A record of the store holds 350 KB, and a claim has about 200 bytes. */
export const claimsMax = 1_000;

export function claimedIn(room: Room | undefined, life: number): RoomUse {
  const workloads = new Map<string, number>();
  const gpusOf = new Map<string, number>();
  let memoryBytes = 0;
  for (const claim of Object.values(room?.life === life ? room.claims : {})) {
    memoryBytes += claim.memoryBytes;
    workloads.set(claim.session, (workloads.get(claim.session) ?? 0) + 1);
    gpusOf.set(claim.session, Math.max(gpusOf.get(claim.session) ?? 0, claim.gpus));
  }
  let gpus = 0;
  for (const count of gpusOf.values()) gpus += count;
  return { memoryBytes, gpus, workloads };
}

export interface Grants {
  /** Undefined if nothing was granted. */
  readonly room: Room | undefined;
  readonly workloads: ReadonlySet<WorkloadId>;
}

/** Grants groups in their order, each whole or not at all, and never more than is lent to the life that is asked. */
export function granted(
  room: Room | undefined,
  { life, lent }: { readonly life: number; readonly lent: Lent },
  groups: readonly ClaimGroup[],
): Grants {
  const workloads = new Set<WorkloadId>();
  // The PNode was restarted since: whoever asks has not heard of it yet.
  if (room && room.life > life) return { room: undefined, workloads };
  let next: Room = room?.life === life ? room : { life, claims: {} };
  for (const group of groups) {
    const wanted = { life, claims: { ...next.claims, ...group.claims } };
    const { memoryBytes, gpus } = claimedIn(wanted, life);
    if (memoryBytes > lent.memoryBytes || gpus > lent.gpus || Object.keys(wanted.claims).length > claimsMax) continue;
    next = wanted;
    workloads.add(group.workload);
  }
  return { room: workloads.size > 0 ? next : undefined, workloads };
}

/** Undefined if none of them is there. */
export function withoutClaims(room: Room | undefined, ids: ReadonlySet<string>): Room | undefined {
  const entries = Object.entries(room?.claims ?? {});
  const kept = entries.filter(([id]) => !ids.has(id));
  return room && kept.length < entries.length ? { ...room, claims: Object.fromEntries(kept) } : undefined;
}

/** As much of a VNode's record as tells what its claims are worth. */
export interface ClaimOwner {
  readonly epoch: number;
  readonly members: readonly { readonly claim: string }[];
}

/**
 * "held": an owner of the VNode stands on it. "void": nobody does, and nobody can any more. "open": whoever claimed
 * it may still write that owner, or may have died before.
 */
export function claimState(id: string, claim: Claim, owner: ClaimOwner | undefined): "held" | "void" | "open" {
  if (owner?.members.some((member) => member.claim === id)) return "held";
  return owner && owner.epoch >= claim.epoch ? "void" : "open";
}
