// How far statements fit together: for each interval every VNode has one, its owners do not contradict each other, and both
// ends of every edge say that the same passed there. The line moves over nothing else. A comparison of records: it costs
// nothing, and makes every audit local. VNodes that share weights on one machine say nothing of what passes between them (trust/silent.ts): their
// statements count together or not at all. Owners of a VNode contradict each other only where they began with the same: others were sent different
// things, and then the seam is in doubt at which that happened, not whoever computed rightly from it.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { checkpointAfter } from "../../network/checkpoints.ts";
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

/** What is to be repeated, in this order; of each VNode only what follows from the same, so that nobody is measured by what others were sent. */
export type Doubtful = ReadonlyMap<VNodeId, readonly Stated[]>;

export type Parted = Extract<Trouble, { readonly kind: "parted" }>;

export type Trouble = Span &
  (
    | { readonly kind: "disagreement"; readonly vnode: VNodeId; readonly doubtful: Doubtful }
    /** VNodes that share weights were together when one of them stated something, and are not now: nobody can repeat that. */
    | { readonly kind: "parted"; readonly vnode: VNodeId }
    /** Final work that was computed again comes to something else than it did: any of them may be wrong. */
    | { readonly kind: "deviation"; readonly doubtful: Doubtful }
    | {
        readonly kind: "seam";
        /** "f/edge" or "b/edge". */
        readonly edge: string;
        readonly sender: VNodeId;
        readonly receiver: VNodeId;
        readonly doubtful: Doubtful;
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
  const times = { ...identity, ...policy };
  const spans: Span[] = [];
  for (let from = after; from < upTo; ) {
    const to = checkpointAfter(times, from);
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
    const trouble = disagreementIn(span, stated, edges) ?? (isWhole ? brokenSeamIn(span, stated, edges) : undefined);
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

function disagreementIn(
  span: Span,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
  edges: readonly SeamEdge[],
): Trouble | undefined {
  for (const vnode of stated.keys())
    for (const alike of statedAlike(vnode, stated, edges))
      if (areAtOdds(alike)) return { ...span, kind: "disagreement", vnode, doubtful: new Map([[vnode, alike]]) };
  return undefined;
}

export function areAtOdds(stated: readonly Stated[]): boolean {
  return new Set(stated.map(({ statement }) => resultOf(statement))).size > 1;
}

function brokenSeamIn(
  span: Span,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
  edges: readonly SeamEdge[],
): Trouble | undefined {
  const first = (vnode: VNodeId): [VNodeId, readonly Stated[]] => [vnode, statedAlike(vnode, stated, edges)[0] ?? []];
  for (const way of edges.flatMap(waysOf)) {
    const { edge, sender, receiver } = way;
    const sent = new Set(stated.get(sender)?.map(({ statement }) => statement.edges[edge]));
    for (const taken of statedAlike(receiver, stated, edges)) {
      const root = taken[0]?.statement.edges[edge];
      if (root !== undefined && sent.has(root)) continue;
      return { ...span, ...way, kind: "seam", doubtful: new Map([first(sender), [receiver, taken]]) };
    }
  }
  // All were sent what somebody states, and not all the same.
  for (const [vnode, all] of stated)
    if (areAtOdds(all)) return { ...span, kind: "disagreement", vnode, doubtful: new Map([first(vnode)]) };
  return undefined;
}

/** The two ends of an edge in each direction in which something passes. */
function waysOf({ id, from, to, gradient }: SeamEdge) {
  const forward = { edge: `f/${id}`, sender: from, receiver: to };
  return gradient ? [forward, { edge: `b/${id}`, sender: to, receiver: from }] : [forward];
}

/** What is stated of a VNode, together where it follows from the same: the state before and everything that came in. */
export function statedAlike(
  vnode: VNodeId,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
  edges: readonly SeamEdge[],
): (readonly Stated[])[] {
  const ways = edges.flatMap(waysOf);
  const premiseOf = (id: VNodeId, { statement }: Stated) => {
    const taken = ways.filter(({ receiver }) => receiver === id).map(({ edge }) => statement.edges[edge]);
    return [id, statement.before, ...taken].join(" ");
  };
  // What passed silently between VNodes of one machine follows from what came in to all of them.
  const premisesOf = (one: Stated) => [
    premiseOf(vnode, one),
    ...(one.beside ?? []).flatMap(({ vnode: id }) => {
      const other = stated.get(id as VNodeId)?.find(({ pnode }) => pnode === one.pnode);
      return other ? [premiseOf(id as VNodeId, other)] : [];
    }),
  ];
  return [...Map.groupBy(stated.get(vnode) ?? [], (one) => premisesOf(one).join("\n")).values()];
}
