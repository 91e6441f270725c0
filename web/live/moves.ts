// Sees VNodes change hosts, and says what to show for how long: a loss is red long enough to be seen, even if the
// orchestrator re-placed it between two frames; then the new host's colour sweeps in.

import type { HostView, VNodeView } from "./views.ts";

export type Condition = "steady" | "unplaced" | "lost" | "moved";

export interface Move {
  readonly from: string;
  readonly to: string;
  readonly atMs: number;
  /** The old host was gone; otherwise the VNode was moved for balance. */
  readonly wasLost: boolean;
}

/** Shorter would be missed by someone who blinks. */
export const lostShownMs = 1_100;
export const movedShownMs = 4_500;

/** The moves after this frame; the same map if there is nothing new and nothing expired. */
export function afterFrame(
  moves: ReadonlyMap<string, Move>,
  before: ReadonlyMap<string, VNodeView>,
  after: ReadonlyMap<string, VNodeView>,
  hosts: ReadonlyMap<string, HostView>,
  lastHosts: Map<string, string>,
  nowMs: number,
): ReadonlyMap<string, Move> {
  if (before === after && moves.size === 0) return moves;
  const next = new Map<string, Move>();
  for (const [key, move] of moves) if (nowMs - move.atMs < lostShownMs + movedShownMs) next.set(key, move);
  for (const [key, vnode] of after) {
    if (!vnode.pnode) continue;
    // The last host that it had, even if it had none in between.
    const from = lastHosts.get(key);
    if (from !== undefined && from !== vnode.pnode) {
      const wasLost = isGone(hosts.get(from));
      next.set(key, { from, to: vnode.pnode, atMs: nowMs, wasLost });
    }
    lastHosts.set(key, vnode.pnode);
  }
  if (next.size === moves.size && [...next].every(([key, move]) => moves.get(key) === move)) return moves;
  return next;
}

export function conditionOf(
  vnode: VNodeView | undefined,
  host: HostView | undefined,
  move: Move | undefined,
  nowMs: number,
): Condition {
  if (!vnode) return "unplaced";
  const age = move ? nowMs - move.atMs : Number.POSITIVE_INFINITY;
  if (move?.wasLost && age < lostShownMs) return "lost";
  if (vnode.phase === "failed") return "lost";
  if (!vnode.pnode) return "unplaced";
  if (isGone(host)) return "lost";
  if (age < (move?.wasLost ? lostShownMs : 0) + movedShownMs) return "moved";
  return "steady";
}

function isGone(pnode: HostView | undefined): boolean {
  return pnode !== undefined && pnode.status !== "online" && pnode.status !== "leaving";
}
