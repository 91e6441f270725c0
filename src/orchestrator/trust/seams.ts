// How far statements fit together: for each interval every VNode has one, its owners do not contradict each other, and both
// ends of every edge say that the same passed there. The line moves over nothing else. A comparison of records: it costs
// nothing, and makes every audit local. VNodes that share weights on one machine say nothing of what passes between them (trust/silent.ts): their
// statements count together or not at all.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { tiedGroups } from "../../network/ties.ts";
import { silentRoot } from "../../trust/silent.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Stated } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import type { VNodeRecords } from "../records/workloads.ts";

export interface SeamEdge {
  readonly id: string;
  readonly from: VNodeId;
  readonly to: VNodeId;
  readonly gradient: boolean;
  readonly kind: string;
}

export interface Span {
  readonly from: number;
  readonly to: number;
}

export type Parted = Extract<Trouble, { readonly kind: "parted" }>;

export type Trouble = Span &
  (
    | { readonly kind: "disagreement"; readonly vnode: VNodeId }
    /** VNodes that share weights were together when one of them stated something, and are not now: nobody can repeat that. */
    | { readonly kind: "parted"; readonly vnode: VNodeId }
    | {
        readonly kind: "seam";
        /** "f/edge" or "b/edge". */
        readonly edge: string;
        readonly sender: VNodeId;
        readonly receiver: VNodeId;
      }
  );

export interface Sound {
  /** Intervals above the line that fit, in order. */
  readonly intervals: readonly Span[];
  /** In the first one that does not. */
  readonly trouble?: Trouble;
}

type SessionPart = Pick<SessionRecord, "vnodes" | "line" | "turn" | "identity" | "policy">;

/** Checkpoint intervals from `after` up to `upTo`. */
export function spansBetween({ identity, policy }: SessionPart, after: number, upTo: number): Span[] {
  const spans: Span[] = [];
  for (let from = after; from < upTo; ) {
    const next = (Math.floor(from / policy.checkpointEvery) + 1) * policy.checkpointEvery;
    const to = Math.min(next, identity.steps);
    spans.push({ from, to });
    from = to;
  }
  return spans.filter(({ to }) => to <= upTo);
}

/** What is stated of an interval in the session's present turn. */
export function statedAt(
  { turn = 0 }: Pick<SessionRecord, "turn">,
  record: VNodeRecord | undefined,
  to: number,
): Stated[] {
  return (record?.statements?.[String(to)] ?? []).filter((one) => one.turn === turn);
}

/** What of it counts, by VNode: statements that leave out what passed between VNodes of one machine only with those of the others. */
export function countedAt(
  session: Pick<SessionRecord, "turn" | "vnodes">,
  records: VNodeRecords,
  edges: readonly SeamEdge[],
  to: number,
): ReadonlyMap<VNodeId, readonly Stated[]> {
  const groups = tiedGroups(edges);
  const stated = new Map(session.vnodes.map((id) => [id, statedAt(session, records.get(id), to)]));
  return new Map(Array.from(stated, ([vnode, all]) => [vnode, counted(vnode, all, groups.get(vnode), stated)]));
}

function counted(
  vnode: VNodeId,
  all: readonly Stated[],
  group: readonly VNodeId[] | undefined,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
): readonly Stated[] {
  if (group === undefined) return all;
  const others = group.filter((one) => one !== vnode);
  return all.flatMap((one): Stated[] => {
    if (!isSilent(one)) return [one];
    const beside = others.flatMap((other) => {
      const own = stated.get(other)?.find((two) => two.pnode === one.pnode && isSilent(two));
      return own ? [{ vnode: other, before: own.statement.before, inputs: own.statement.inputs }] : [];
    });
    return beside.length === others.length ? [{ ...one, beside }] : [];
  });
}

/** Who states something that counts for nothing, by itself. */
export function uncountedAt(
  session: Pick<SessionRecord, "turn" | "vnodes">,
  records: VNodeRecords,
  edges: readonly SeamEdge[],
  to: number,
): { readonly pnode: PNodeId; readonly vnode: VNodeId }[] {
  return Array.from(countedAt(session, records, edges, to)).flatMap(([vnode, all]) => {
    const counts = new Set(all.map(({ pnode }) => pnode));
    const others = statedAt(session, records.get(vnode), to).filter(({ pnode }) => !counts.has(pnode));
    return others.map(({ pnode }) => ({ pnode, vnode }));
  });
}

export function isSilent({ statement }: Pick<Stated, "statement">): boolean {
  return Object.values(statement.edges).includes(silentRoot);
}

function partedIn(
  span: Span,
  session: SessionPart,
  records: VNodeRecords,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
): Trouble | undefined {
  for (const [vnode, all] of stated) {
    const every = statedAt(session, records.get(vnode), span.to);
    const isMixed = new Set(every.map(isSilent)).size > 1;
    const isContradicted = all.length < every.length && new Set(every.map((one) => one.statement.after)).size > 1;
    if (all.length === 0 || isMixed || isContradicted) return { ...span, kind: "parted", vnode };
  }
  return undefined;
}

export function soundUpTo(
  session: SessionPart,
  records: VNodeRecords,
  edges: readonly SeamEdge[],
  upTo: number,
): Sound {
  const intervals: Span[] = [];
  for (const span of spansBetween(session, session.line, upTo)) {
    if (session.vnodes.some((id) => statedAt(session, records.get(id), span.to).length === 0)) return { intervals };
    const stated = countedAt(session, records, edges, span.to);
    const parted = partedIn(span, session, records, stated);
    if (parted !== undefined) return { intervals, trouble: parted };
    const isWhole = session.policy.replicas <= 1 || isStatedByAll(records, stated);
    // Owners who have yet to state something may be the ones at odds: then their VNode is in doubt, and not its neighbours.
    const trouble = disagreementIn(span, stated) ?? (isWhole ? brokenSeamIn(span, stated, edges) : undefined);
    if (trouble !== undefined) return { intervals, trouble };
    if (!isWhole) return { intervals };
    intervals.push(span);
  }
  return { intervals };
}

/** Where several own a VNode, the first to state something never wins: those who are there have all come to the same. */
function isStatedByAll(records: VNodeRecords, stated: ReadonlyMap<VNodeId, readonly Stated[]>): boolean {
  return [...stated].every(([vnode, all]) =>
    records.get(vnode)?.members.every((member) => all.some(({ pnode }) => pnode === member.pnode)),
  );
}

function disagreementIn(span: Span, stated: ReadonlyMap<VNodeId, readonly Stated[]>): Trouble | undefined {
  for (const [vnode, all] of stated)
    if (new Set(all.map(({ statement }) => resultOf(statement))).size > 1)
      return { ...span, kind: "disagreement", vnode };
  return undefined;
}

function brokenSeamIn(
  span: Span,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
  edges: readonly SeamEdge[],
): Trouble | undefined {
  const rootAt = (vnode: VNodeId, edge: string) => stated.get(vnode)?.[0]?.statement.edges[edge];
  for (const { id, from, to, gradient } of edges) {
    const ways = [{ edge: `f/${id}`, sender: from, receiver: to }];
    if (gradient) ways.push({ edge: `b/${id}`, sender: to, receiver: from });
    for (const { edge, sender, receiver } of ways) {
      const root = rootAt(sender, edge);
      if (root === undefined || root !== rootAt(receiver, edge))
        return { ...span, kind: "seam", edge, sender, receiver };
    }
  }
  return undefined;
}
