// Who hosts a VNode, in an order that everybody computes alike: an orchestrator's word (a higher epoch) beats every
// takeover under an older one, and of two takeovers under one epoch the same one wins wherever they meet.

import { sha256 } from "../core/hash.ts";
import type { VNodeId } from "../core/ids.ts";

export interface TenureOwner {
  readonly pnode: string;
  /** Of the process that hosts: another one under the same id has forgotten the VNode. Empty: nobody said which. */
  readonly incarnation: string;
}

export interface Tenure {
  readonly vnode: VNodeId;
  /** From the VNode's record. */
  readonly epoch: number;
  /** 0: granted by an orchestrator. More: taken over under the epoch while none was there. */
  readonly count: number;
  /** The primary first; a takeover has one. */
  readonly owners: readonly TenureOwner[];
}

export type Tenures = ReadonlyMap<VNodeId, Tenure>;

export function isTakeover({ count }: Tenure): boolean {
  return count > 0;
}

/** Whether `told` counts where `known` was known. A total order: what one PNode prefers, all do. */
export function isHigher(told: Tenure, known: Tenure | undefined): boolean {
  if (known === undefined) return true;
  if (told.epoch !== known.epoch) return told.epoch > known.epoch;
  if (told.count !== known.count) return told.count > known.count;
  // An orchestrator's word under one epoch has one content, but it may be told with less or more of it.
  if (!isTakeover(told)) return known.owners.some(isVague) && !told.owners.some(isVague);
  const [a, b] = [told.owners[0], known.owners[0]];
  if (a === undefined || b === undefined) return a !== undefined;
  return a.pnode !== b.pnode ? a.pnode < b.pnode : a.incarnation > b.incarnation;
}

function isVague({ incarnation }: TenureOwner): boolean {
  return incarnation === "";
}

/** Those that are higher than what was known replace it; the same map if there are none. */
export function withTenures(known: Tenures, told: readonly Tenure[]): Tenures {
  if (!told.some((tenure) => isHigher(tenure, known.get(tenure.vnode)))) return known;
  const next = new Map(known);
  for (const tenure of told) if (isHigher(tenure, next.get(tenure.vnode))) next.set(tenure.vnode, tenure);
  return next;
}

const hashes = new WeakMap<Tenures, string>();

/** The same for all who know the same. */
export function hashOfTenures(tenures: Tenures): string {
  const known = hashes.get(tenures);
  if (known !== undefined) return known;
  const words = Array.from(tenures.values(), ({ vnode, epoch, count, owners }) =>
    JSON.stringify([vnode, epoch, count, ...owners.map(({ pnode, incarnation }) => [pnode, incarnation])]),
  );
  const hash = sha256(words.sort().join("\n"));
  hashes.set(tenures, hash);
  return hash;
}

/** The next takeover of a VNode, by this process. */
export function takenOver({ vnode, epoch, count }: Tenure, by: TenureOwner): Tenure {
  return { vnode, epoch, count: count + 1, owners: [by] };
}

export function isOwnedBy({ owners }: Tenure, { pnode, incarnation }: TenureOwner): boolean {
  return owners.some((owner) => owner.pnode === pnode && (isVague(owner) || owner.incarnation === incarnation));
}
