// Who holds which states: one list per holder, of which the one with the higher sequence counts, so that merging needs no
// agreement and a disk that was lost is not counted on. Everybody who knows the same lists draws the same line.

import type { Sha256, VNodeId } from "../core/ids.ts";

export interface HeldState {
  readonly vnode: VNodeId;
  readonly step: number;
  /** Of the state's manifest. */
  readonly state: Sha256;
  /** Blob of the step hashes that no store knows, up to the step; empty if there are none. */
  readonly trail: Sha256 | "";
}

export interface HolderList {
  readonly sequence: number;
  readonly states: readonly HeldState[];
}

/**
 * Up to here others may say how far a holder has counted. It counts on from there, and numbers that it tells itself go twice as
 * far: nobody can make it run out of them.
 */
export const toldSequenceMax = 2 ** 52;
/** Of one VNode at or above the line, at checkpoints after every step: more than any holder has. */
const statesPerVNodeMax = 256;

/** Whether a list of so many states can be true; looking through it takes time. */
export function isPossible({ states }: HolderList, vnodes: number): boolean {
  return states.length <= vnodes * statesPerVNodeMax;
}

export type Holdings = ReadonlyMap<string, HolderList>;

export function withHolder(known: Holdings, holder: string, told: HolderList): Holdings {
  const before = known.get(holder);
  return before !== undefined && before.sequence >= told.sequence ? known : new Map(known).set(holder, told);
}

/** How many of those who count hold the state of each VNode at a step, where they hold most of one content. */
export function heldTimes(
  holdings: Holdings,
  step: number,
  counts: (holder: string) => boolean,
): ReadonlyMap<VNodeId, number> {
  const times = new Map<string, number>();
  const most = new Map<VNodeId, number>();
  for (const [holder, { states }] of holdings) {
    if (!counts(holder)) continue;
    for (const held of states) {
      if (held.step !== step) continue;
      const name = `${held.state} ${held.vnode}`;
      const count = (times.get(name) ?? 0) + 1;
      times.set(name, count);
      if (count > (most.get(held.vnode) ?? 0)) most.set(held.vnode, count);
    }
  }
  return most;
}

/** The content that most of those hold who count; of equals the smaller hash, so that all choose alike. */
export function heldState(
  holdings: Holdings,
  vnode: VNodeId,
  step: number,
  counts: (holder: string) => boolean,
): { readonly state: Sha256; readonly holders: readonly string[] } | undefined {
  const byState = new Map<Sha256, string[]>();
  for (const [holder, { states }] of holdings) {
    if (!counts(holder)) continue;
    for (const held of states)
      if (held.vnode === vnode && held.step === step)
        byState.set(held.state, [...(byState.get(held.state) ?? []), holder]);
  }
  let best: { state: Sha256; holders: string[] } | undefined;
  for (const [state, holders] of byState) {
    const more = holders.length - (best?.holders.length ?? 0);
    if (more > 0 || (more === 0 && best !== undefined && state < best.state)) best = { state, holders };
  }
  return best;
}

/** VNodes of which two contents are held for one step: somebody computed wrongly. */
export function disputed(holdings: Holdings): { readonly vnode: VNodeId; readonly step: number }[] {
  const first = new Map<string, HeldState>();
  const found = new Map<string, HeldState>();
  for (const { states } of holdings.values())
    for (const held of states) {
      const name = `${held.step} ${held.vnode}`;
      const before = first.get(name) ?? held;
      first.set(name, before);
      if (before.state !== held.state) found.set(name, held);
    }
  return Array.from(found.values(), ({ vnode, step }) => ({ vnode, step }));
}

export interface LineWish {
  readonly vnodes: readonly VNodeId[];
  /** Whose lists count: those who are alive as far as is known here. */
  readonly counts: (holder: string) => boolean;
  /** Holders that each state needs. */
  readonly needed: number;
  /** Only lines above it are of interest. */
  readonly above: number;
}

/** The newest step of which every VNode's state is held often enough; undefined if there is none above. */
export function heldLine(holdings: Holdings, { vnodes, counts, needed, above }: LineWish): number | undefined {
  const held = new Map<number, Map<string, number>>();
  const enough = new Map<number, Set<VNodeId>>();
  for (const [holder, { states }] of holdings) {
    if (!counts(holder)) continue;
    for (const { vnode, step, state } of states) {
      if (step <= above) continue;
      const times = held.get(step) ?? new Map<string, number>();
      held.set(step, times);
      const name = `${state} ${vnode}`;
      const count = (times.get(name) ?? 0) + 1;
      times.set(name, count);
      if (count >= needed) enough.set(step, (enough.get(step) ?? new Set()).add(vnode));
    }
  }
  const steps = [...enough.keys()].sort((a, b) => b - a);
  return steps.find((step) => vnodes.every((vnode) => enough.get(step)?.has(vnode)));
}
