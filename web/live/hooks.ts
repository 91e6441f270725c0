// React's view of the store: a component renders again only if what it selects changed.

import { createContext, useContext, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Follower } from "./follow.ts";
import { type Condition, conditionOf, lostShownMs, movedShownMs } from "./moves.ts";
import type { State, Store } from "./store.ts";
import { type HostView, type VNodeView, vnodeKey } from "./views.ts";

export interface Live {
  readonly store: Store;
  readonly follower: Follower;
}

export const LiveContext = createContext<Live | undefined>(undefined);

export function useLiveParts(): Live {
  const live = useContext(LiveContext);
  if (!live) throw new Error("this component needs the live store around it");
  return live;
}

/** `select` must return the same value while nothing changed: a field, or an entry of a map. */
export function useLive<T>(select: (state: State) => T): T {
  const { store } = useLiveParts();
  return useSyncExternalStore(store.subscribe, () => select(store.state));
}

/** Like `useLive` for several values at once: one subscription, and the old array while all of them are the same. */
export function useLiveAll<const T extends readonly unknown[]>(select: (state: State) => T): T {
  const { store } = useLiveParts();
  const before = useRef<T>(undefined);
  return useSyncExternalStore(store.subscribe, () => {
    const after = select(store.state);
    const same = before.current?.every((value, index) => Object.is(value, after[index]));
    if (!same) before.current = after;
    return before.current as T;
  });
}

export interface VNodeShown {
  readonly vnode: VNodeView | undefined;
  readonly host: HostView | undefined;
  readonly from: HostView | undefined;
  readonly condition: Condition;
  /** Hosts that execute it too. */
  readonly others: string;
}

/** A VNode with its host, and what to show while it moves; without its numbers if they are not shown. */
export function useVNode(session: string, id: string, withNumbers = true): VNodeShown {
  const key = vnodeKey(session, id);
  const [vnode, move, host, from, isLive, others] = useLiveAll((state) => {
    const found = (withNumbers ? state.vnodes : state.placements).get(key);
    const moved = state.moves.get(key);
    return [
      found,
      moved,
      state.hosts.get(found?.pnode ?? ""),
      state.hosts.get(moved?.from ?? ""),
      isUnderWay(state.sessions.get(session)?.status),
      otherHosts(state, session, id),
    ];
  });
  const [, again] = useState(0);
  useEffect(() => {
    if (!move) return;
    // Conditions end by time alone, so the component is told when.
    const timers = [lostShownMs, movedShownMs, lostShownMs + movedShownMs].map((ms) =>
      setTimeout(() => again((value) => value + 1), Math.max(0, move.atMs + ms + 20 - performance.now())),
    );
    return () => timers.forEach(clearTimeout);
  }, [move]);
  const condition = isLive ? conditionOf(vnode, host, move, performance.now()) : "steady";
  return { vnode, host, from, condition, others };
}

/** Names of the hosts of its replicas, as one string, which compares by value. */
function otherHosts({ placements, hosts }: State, session: string, id: string): string {
  const names: string[] = [];
  for (let replica = 1; ; replica += 1) {
    const placed = placements.get(vnodeKey(session, id, replica));
    if (!placed) return names.join(", ");
    names.push(hosts.get(placed.pnode)?.name ?? placed.pnode);
  }
}

export function isUnderWay(status: string | undefined): boolean {
  return status === "running" || status === "waiting";
}

/** Renders again every `intervalMs`, for texts that count seconds. */
export function useTick(intervalMs: number, enabled = true): void {
  const [, again] = useState(0);
  useEffect(() => {
    if (!enabled) return;
    const timer = setInterval(() => again((value) => value + 1), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs, enabled]);
}
