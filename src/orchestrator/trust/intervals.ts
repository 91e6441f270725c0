// Opens the record of an interval: when the line passes it, with the draw over everything that was stated; or while the line
// cannot pass, because statements contradict each other there.

import { canonicalJson, sha256 } from "../../core/hash.ts";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { checkpointsBetween } from "../../network/checkpoints.ts";
import { tiedGroups } from "../../network/ties.ts";
import type { Context } from "../context.ts";
import type { AuditRecord, DrawnInterval, IntervalRecord, Stated } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { prefix } from "../records/store-keys.ts";
import type { Auditors } from "./auditors.ts";
import { drawContent, isDrawn } from "./lottery.ts";
import type { SeamEdge, Span, Trouble } from "./seams.ts";
import { type Alarm, auditRate } from "./standing.ts";
import type { Standings } from "./standings.ts";

export interface IntervalNeeds {
  readonly auditors: Auditors;
  readonly standings: Standings;
}

interface Opened {
  /** As it counts. */
  readonly stated: ReadonlyMap<VNodeId, readonly Stated[]>;
  readonly span: Span;
  readonly root: string;
  readonly edges: readonly SeamEdge[];
}

export async function openInterval(
  context: Context,
  { auditors, standings }: IntervalNeeds,
  session: SessionRecord,
  { stated, span, root, edges }: Opened,
): Promise<IntervalRecord> {
  const { id, turn = 0, restarts = 0, identity, policy, numericsClass } = session;
  const groups = tiedGroups(edges);
  const content = new TextEncoder().encode(
    canonicalJson({ session: id, turn, ...span, statements: Object.fromEntries(stated) }),
  );
  const statements = sha256(content);
  await context.blobs.states.put(statements, content, content.byteLength);
  const draw = await context.lottery.draw(drawContent({ session: id, turn, ...span, statements }));
  const times = { ...identity, ...policy };
  const total = checkpointsBetween(times, 0, identity.steps);
  const leftAfter = checkpointsBetween(times, span.to, identity.steps);
  const audits: Record<string, AuditRecord> = {};
  const owners: Record<string, PNodeId> = {};
  for (const [vnode, all] of stated) {
    const owner = (all[0] as Stated).pnode;
    owners[vnode] = owner;
    const rate = auditRate(standings.of(owner), alarmAt(session, span.to));
    // What follows from the seed alone has nothing to be weighed against: where moves are capped it is repeated.
    const isUnweighed = policy.cap === "on" && all.some(({ statement }) => statement.before === "");
    // VNodes that share weights are drawn together: they are repeated together.
    const lot = groups.get(vnode)?.[0] ?? vnode;
    if (!isUnweighed && !isDrawn(draw, lot, rate, policy.assurance ?? "none", leftAfter, total)) continue;
    const audit: AuditRecord = { stated: all, tasks: [], ready: false, accused: [] };
    const except = new Set(all.map(({ pnode }) => pnode));
    const somebody = auditors.candidates(
      session,
      togetherIn(vnode, audit),
      draw,
      except,
      policy.assurance === "proven",
    );
    // Nobody could repeat it: then nobody has to keep and send anything for that either.
    const reason = `no machine of another owner in class ${numericsClass} is here to repeat it`;
    const wallMs = context.world.clock.wallMs();
    const outcome = { kind: "unchecked", by: "nobody", reason, result: "", wallMs } as const;
    audits[vnode] = somebody.length > 0 || policy.assurance !== "sampled" ? audit : { ...audit, outcome };
  }
  const openedWallMs = context.world.clock.wallMs();
  return { session: id, ...span, turn, statements, root, draw, owners, audits, openedWallMs, restarts };
}

/** A VNode with those that are repeated with it. */
export function togetherIn(vnode: VNodeId, { stated }: Pick<AuditRecord, "stated">): VNodeId[] {
  return [vnode, ...(stated[0]?.beside ?? []).map((one) => one.vnode as VNodeId)];
}

/** What is stated of all that are repeated with it, by the same machines. */
export function statedTogether({ audits }: IntervalRecord, { stated }: Pick<AuditRecord, "stated">): Stated[] {
  return stated
    .filter(({ apart }) => !apart)
    .flatMap((own) => [
      own,
      ...(own.beside ?? []).flatMap(
        ({ vnode }) => audits[vnode]?.stated.filter(({ pnode }) => pnode === own.pnode) ?? [],
      ),
    ]);
}

/** What the session knows of others who were found wrong when the line passes `to`. */
export function alarmAt(
  { alarm, liars = 0, identity, policy }: Pick<SessionRecord, "alarm" | "liars" | "identity" | "policy">,
  to: number,
): Alarm | undefined {
  if (alarm === undefined) return undefined;
  return { since: Math.max(0, checkpointsBetween({ ...identity, ...policy }, alarm, to)), liars };
}

/**
 * While two contradict each other: both ends of a seam are repeated, the sender's first, or the VNode whose owners differ, by what they began with; and those
 * that have to be repeated with them. Where all of them together contradict what was final, all are.
 */
export function stuckInterval(
  session: SessionRecord,
  stated: ReadonlyMap<VNodeId, readonly Stated[]>,
  trouble: Exclude<Trouble, { kind: "parted" }>,
  openedWallMs: number,
): IntervalRecord {
  const { id, turn = 0, restarts = 0 } = session;
  const { from, to, doubtful } = trouble;
  const why = whyStuck(trouble);
  const auditOf = (vnode: VNodeId, own: readonly Stated[]): AuditRecord => {
    const others = stated.get(vnode)?.filter(({ statement }) => !own.some((one) => one.statement === statement)) ?? [];
    const apart = others.map((one) => ({ ...one, apart: true as const }));
    return { stated: [...own, ...apart], tasks: [], ready: false, accused: [] };
  };
  const audits = Object.fromEntries(Array.from(doubtful, ([vnode, own]) => [vnode, auditOf(vnode, own)]));
  for (const [vnode, own] of doubtful) {
    const by = new Set(own.map(({ pnode }) => pnode));
    for (const one of togetherIn(vnode, { stated: own }))
      audits[one] ??= auditOf(one, stated.get(one)?.filter(({ pnode }) => by.has(pnode)) ?? []);
  }
  const owners = Object.fromEntries(
    Array.from(stated).flatMap(([vnode, [first]]) => (first === undefined ? [] : [[vnode, first.pnode]])),
  );
  const undrawn = { statements: "", root: "", draw: "" };
  return { session: id, from, to, turn, stuck: why, ...undrawn, owners, audits, openedWallMs, restarts };
}

function whyStuck(trouble: Exclude<Trouble, { kind: "parted" }>): string {
  switch (trouble.kind) {
    case "seam":
      return `VNodes ${trouble.sender} and ${trouble.receiver} state different messages on ${trouble.edge.slice(2)}`;
    case "disagreement":
      return `owners of VNode ${trouble.vnode} come to different results`;
    case "deviation":
      return "it was final, and comes out otherwise again and again";
  }
}

/** Those of a session, oldest first. */
export function intervalsOf({ mirror }: Context, session: SessionId): IntervalRecord[] {
  return mirror.under(prefix.intervalsOf(session)).sort((a, b) => a.to - b.to);
}

/** Somebody may still have to repeat it. */
export function isNeeded({ outcome, accused }: AuditRecord): boolean {
  return outcome === undefined || accused.some(({ verdict }) => verdict === undefined);
}

/** Its inputs are still needed, for itself or for somebody that is repeated with it. */
export function isAwaited({ audits }: Pick<IntervalRecord, "audits">, vnode: string): boolean {
  return Object.entries(audits).some(
    ([id, audit]) => isNeeded(audit) && togetherIn(id as VNodeId, audit).includes(vnode as VNodeId),
  );
}

/** What is told with the line: whose inputs are still needed. */
export function drawnIn(intervals: readonly IntervalRecord[]): DrawnInterval[] {
  return intervals.flatMap(({ from, to, audits }) =>
    Object.entries(audits)
      .filter(([vnode]) => isAwaited({ audits }, vnode))
      .map(([vnode]) => ({ vnode: vnode as VNodeId, from, to })),
  );
}
