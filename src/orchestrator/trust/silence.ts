// Inputs of an audit that do not come: who should have stored them, and why they are not there. A sender that is here in the
// very life in which it computed them has them, so it withholds them. One that has begun again since has lost them, or says so: nobody is
// blamed for that, but its VNode goes elsewhere, so that whoever only says so cannot hold a session up for ever.

import type { PNodeId, Sha256, VNodeId } from "../../core/ids.ts";
import type { Statement } from "../../trust/statement.ts";
import { type Lacking, lackingIn } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { IntervalRecord, Stated } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { vnodeRecordsOf } from "../records/workloads.ts";
import { isLost } from "../sessions/stored-states.ts";
import { type SeamEdge, statedAt } from "./seams.ts";

/** Nothing new was stored for so long: it does not come any more. */
export const quietMsMost = 60_000;
/** The same of a sender that says it is storing: uplinks are slow, and the store may be away. */
export const storingMsMost = 600_000;
/** A sender that takes longer to store a message says so. */
export const slowStoringMs = 30_000;

/** An owner of a VNode that has not stored what an audit of a neighbour, or of itself, needs. */
export interface Lapse {
  readonly pnode: PNodeId;
  readonly vnode: VNodeId;
}

export interface Withheld extends Lapse {
  /** For people. */
  readonly story: string;
}

export interface Missing {
  readonly withheld: readonly Withheld[];
  /** Nobody is blamed. */
  readonly forgotten: readonly Lapse[];
  /** The session has rested since: owners were told to let go, so nobody has forgotten anything. */
  readonly wasLetGo?: boolean;
}

/** What is known of a sending VNode. */
export interface SenderFacts {
  /** What its owner stated of the interval; undefined if nobody knows any more. */
  readonly stated: Pick<Stated, "pnode"> & { readonly statement: Pick<Statement, "life" | "edges"> };
  readonly isHere: boolean;
  /** The life that this owner has now, as far as it says. */
  readonly life: string | undefined;
  readonly isStoring: boolean;
}

export type Sender = "waits" | "gone" | "forgot" | "withholds";

/** Why a sender has not stored what it should have, after nothing came for `quietMs`. */
export function judgedSender({ stated, isHere, life, isStoring }: SenderFacts, quietMs: number): Sender {
  if (!isHere) return "gone";
  if (isStoring && quietMs < storingMsMost) return "waits";
  return life === stated.statement.life ? "withholds" : "forgot";
}

/** Whether those who sent something in an interval were told to let go of it since. */
export function wasLetGo(
  { status, restarts = 0 }: Pick<SessionRecord, "status" | "restarts">,
  interval: Pick<IntervalRecord, "restarts">,
): boolean {
  return status === "suspended" || restarts !== (interval.restarts ?? 0);
}

/** Nobody loses its VNode for what it was told to let go of; whoever withholds in the life in which it sent is still here. */
export function excused(missing: Missing): Missing {
  return { ...missing, forgotten: [], wasLetGo: true };
}

/** Undefined while somebody may still store what is missing. */
export async function missingOf(
  context: Context,
  session: SessionRecord,
  interval: IntervalRecord,
  { statement, pnode: owner }: Stated,
  present: ReadonlySet<string>,
  edges: readonly SeamEdge[],
  isHere: (pnode: PNodeId) => boolean,
  quietMs: number,
): Promise<Missing | undefined> {
  const vnode = statement.vnode as VNodeId;
  const own = (story: string): Missing => ({ withheld: [{ pnode: owner, vnode, story }], forgotten: [] });
  const content = await context.blobs.states.get(statement.inputs).catch(orLost);
  if (content === undefined) return { withheld: [], forgotten: isHere(owner) ? [{ pnode: owner, vnode }] : [] };
  const { session: id, from, to } = statement;
  const listed = { content, interval: { session: id, vnode, from, to } };
  const lacking = await lackingIn(context.aside, { ...listed, edges: statement.edges, present });
  if (lacking.kind === "unfit")
    return own(`the list of messages that VNode ${vnode} was sent is not what it stated: ${lacking.reason}`);
  const senders = await sendersOf(context, session, interval);
  const factsOf = (edge: string) => senderFacts(context, session, senders, edges, edge, isHere);
  // Where both ends do not even say the same, an earlier owner may have sent what the present one never computed.
  const fits = (edge: string) => factsOf(edge)?.facts.stated.statement.edges[edge] === statement.edges[edge];
  const certain = lacking.edges.filter(({ edge }) => fits(edge));
  return told(certain, factsOf, quietMs);
}

function told(
  lacking: Extract<Lacking, { kind: "missing" }>["edges"],
  factsOf: (edge: string) => { readonly vnode: VNodeId; readonly facts: SenderFacts } | undefined,
  quietMs: number,
): Missing | undefined {
  const withheld: Withheld[] = [];
  const forgotten: Lapse[] = [];
  for (const { edge, first, count } of lacking) {
    const found = factsOf(edge);
    if (found === undefined) continue;
    const { vnode, facts } = found;
    const lapse = { pnode: facts.stated.pnode, vnode };
    const verdict = judgedSender(facts, quietMs);
    if (verdict === "waits") return undefined;
    if (verdict === "forgot") forgotten.push(lapse);
    if (verdict !== "withholds" || withheld.some(({ pnode }) => pnode === lapse.pnode)) continue;
    const what = count === 1 ? `message ${first}` : `${count} messages, ${first} the first of them,`;
    withheld.push({ ...lapse, story: `it has not stored ${what} of VNode ${vnode}, though it was here and had them` });
  }
  return { withheld, forgotten };
}

function senderFacts(
  { mirror }: Context,
  { id }: SessionRecord,
  senders: ReadonlyMap<VNodeId, Stated>,
  edges: readonly SeamEdge[],
  edge: string,
  isHere: (pnode: PNodeId) => boolean,
): { vnode: VNodeId; facts: SenderFacts } | undefined {
  const planned = edges.find((one) => one.id === edge.slice(2));
  const vnode = edge.startsWith("f/") ? planned?.from : planned?.to;
  const stated = vnode && senders.get(vnode);
  if (vnode === undefined || stated === undefined) return undefined;
  const member = mirror.get(key.vnode(id, vnode))?.members.find(({ pnode }) => pnode === stated.pnode);
  const { life, isStoring = false } = member?.told ?? {};
  return { vnode, facts: { stated, isHere: isHere(stated.pnode), life, isStoring } };
}

/** Who stated what of an interval: in the blob that was drawn by, or still in the VNodes' records while the line cannot pass. */
async function sendersOf(
  context: Context,
  session: SessionRecord,
  { statements, to }: IntervalRecord,
): Promise<ReadonlyMap<VNodeId, Stated>> {
  if (statements === "") {
    const records = vnodeRecordsOf(context.mirror, session);
    return new Map(session.vnodes.flatMap((id) => statedAt(session, records.get(id), to).map((one) => [id, one])));
  }
  const content = await context.blobs.states.get(statements as Sha256).catch(orLost);
  if (content === undefined) return new Map();
  const { statements: all } = JSON.parse(new TextDecoder().decode(content)) as {
    statements: Record<VNodeId, readonly Stated[]>;
  };
  return new Map(Object.entries(all).flatMap(([id, [first]]) => (first ? [[id as VNodeId, first] as const] : [])));
}

function orLost(thrown: unknown): undefined {
  if (isLost(thrown)) return undefined;
  throw thrown;
}
