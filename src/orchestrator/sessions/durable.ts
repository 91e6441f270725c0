// Checkpoints become durable here: one compare-and-set under the owner's epoch. Another hash for a step that
// has one already is never written over; it means that one of two computations was wrong, and is said aloud.

import { auditBlobBytesMax } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { type PNodeId, parseId, parseSha256, type SessionId, type Sha256, type VNodeId } from "../../core/ids.ts";
import { checkpointAfter, checkpointBefore } from "../../network/checkpoints.ts";
import type { RecordDurableRequest } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { valueBytesMax } from "../../store/records/state-store.ts";
import { isSignedBy, resultOf, type Statement, statementFromWire } from "../../trust/statement.ts";
import { outputSteps } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { inTurn } from "../records/turns.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { isChecked, isLive } from "../records/workloads.ts";
import { lapsesOf } from "../workloads/failures.ts";
import { type Garbage, trimmed } from "./garbage.ts";
import { isLost, storedState } from "./stored-states.ts";

/** A record stays far below the store's bound: 64 hex digits a step. */
const stepHashesMax = 3_000;

export type DurableOutcome =
  | {
      readonly kind: "accepted";
      readonly line: number;
      /** The state's manifest and its parts. */
      readonly blobs: readonly Sha256[];
    }
  | { readonly kind: "fenced" }
  | { readonly kind: "conflict"; readonly step: number; readonly known: string }
  /** No optimizer comes to it. */
  | { readonly kind: "beyond"; readonly reason: string };

/** What is impossible about a state that follows from another, where the session asks for that. */
export type Weigh = (session: SessionRecord, statement: Statement) => Promise<string | undefined>;

export interface DurableRequest {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly pnode: PNodeId;
  readonly epoch: number;
  readonly step: number;
  readonly state: { readonly hash: Sha256; readonly bytes: number };
  readonly steps: readonly { readonly step: number; readonly hash: string }[];
  /** The session's as the PNode knows it. */
  readonly turn: number;
  readonly statement?: Statement;
}

/** `pnode` is the caller, by its key. */
export function parseDurable(request: RecordDurableRequest, pnode: PNodeId): DurableRequest {
  const step = Number(request.step);
  if (request.steps.length > stepHashesMax)
    fail("invalid_argument", `${request.steps.length} step hashes at once: at most ${stepHashesMax}`);
  return {
    session: parseId<SessionId>(request.session, "the session"),
    vnode: request.vnode as VNodeId,
    pnode,
    epoch: Number(request.epoch),
    step,
    state: { hash: parseSha256(request.state, "the state's hash"), bytes: Number(request.stateBytes) },
    steps: request.steps.map((one) => {
      const at = Number(one.step);
      if (at < 1 || at > step)
        fail("invalid_argument", `a hash for step ${at} does not belong to a state after step ${step}`);
      return { step: at, hash: parseSha256(one.hash, `the hash of step ${at}`) };
    }),
    turn: Number(request.turn),
    ...(request.statement && {
      statement: statementFromWire(request.statement, request.session, request.vnode),
    }),
  };
}

type DurableStep =
  | {
      readonly next: VNodeRecord | undefined;
      readonly outcome: "accepted" | "fenced";
      readonly dropped?: readonly Sha256[];
    }
  | { readonly conflict: { readonly step: number; readonly known: string } };

/** The fence: only a member records, and only under epochs since which it has been one. */
function mayRecord(record: VNodeRecord, { pnode, epoch }: Pick<DurableRequest, "pnode" | "epoch">): boolean {
  const member = record.members.find((one) => one.pnode === pnode);
  return member !== undefined && epoch >= member.since && epoch <= record.epoch;
}

/** The next record, or why there is none. Pure: the fence is decided on what the store holds. */
export function withDurable(stored: VNodeRecord, request: DurableRequest, session: SessionRecord): DurableStep {
  const { line } = session;
  const record = inTurn(stored, session);
  if (!mayRecord(record, request)) return { next: undefined, outcome: "fenced" };
  if (request.statement !== undefined && isChecked(session))
    return withStatement(record, request, request.statement, session);
  // What was computed before an era began is void: the answer tells the owner so.
  if (request.turn < (record.turn ?? 0)) return { next: undefined, outcome: "accepted" };
  // A replay passes through steps that everybody has stored already; there is nothing to add.
  if (request.step < line) return { next: undefined, outcome: "accepted" };
  const known = record.durable[String(request.step)];
  if (known && known.hash !== request.state.hash) return { conflict: { step: request.step, known: known.hash } };
  const stepHashes: Record<string, string> = {};
  for (const [step, hash] of Object.entries(record.stepHashes)) if (Number(step) > line) stepHashes[step] = hash;
  for (const { step, hash } of request.steps) {
    if (step <= line) continue;
    const before = stepHashes[String(step)];
    if (before !== undefined && before !== hash) return { conflict: { step, known: before } };
    stepHashes[String(step)] = hash;
  }
  const work = withWork(record, request, session);
  const complete =
    known !== undefined &&
    work[String(request.step)] === record.work?.[String(request.step)] &&
    request.steps.every(({ step }) => step <= line || record.stepHashes[String(step)]);
  if (complete) return { next: undefined, outcome: "accepted" };
  const state = request.state;
  // What lies below the line goes in the same write, so that garbage is collected under the same fence.
  const { kept, dropped } = trimmed(session, { [String(request.step)]: state, ...record.durable });
  return { next: { ...record, durable: kept, stepHashes, work, failures: [] }, outcome: "accepted", dropped };
}

/** Whoever brought the VNode to this step is to be paid; what the ledger has paid for is forgotten here. */
function withWork({ work = {} }: VNodeRecord, { step, pnode }: DurableRequest, { settled = 0 }: SessionRecord) {
  const due: Record<string, readonly PNodeId[]> = {};
  for (const [at, pnodes] of Object.entries(work)) if (Number(at) > settled) due[at] = pnodes;
  const known = work[String(step)] ?? [];
  if (step > settled) due[String(step)] = known.includes(pnode) ? known : [pnode, ...known];
  return due;
}

/** Of one step, by different owners or lives: more would be an attack. */
const statementsMax = 8;
/** Of one owner in a VNode's record: what it writes must leave the next owner room for its own. */
const statementBytesMax = valueBytesMax / 3;

/**
 * The same for a session that is checked: whatever owners state is kept beside what others state, and the first never wins.
 * Whether they contradict each other is seen when the line would move.
 */
function withStatement(
  record: VNodeRecord,
  request: DurableRequest,
  statement: Statement,
  session: SessionRecord,
): DurableStep {
  const { line, turn: sessionTurn = 0 } = session;
  const { turn, pnode } = request;
  const step = String(request.step);
  // What was computed before the session went back is void: the answer tells the owner so.
  if (turn < Math.max(sessionTurn, record.turn ?? 0) || request.step <= line)
    return { next: undefined, outcome: "accepted" };
  const stated = record.statements ?? {};
  const begins = stated[String(statement.from)]?.map((one) => one.statement.after as string) ?? [];
  const before = record.durable[String(statement.from)]?.hash ?? "";
  if (statement.before !== before && !begins.includes(statement.before))
    return { conflict: { step: statement.from, known: before || "the state that follows from the seed" } };
  const own = (stated[step] ?? []).filter((one) => one.turn === turn);
  const isKnown = own.some((one) => one.pnode === pnode && resultOf(one.statement) === resultOf(statement));
  if (isKnown && record.durable[step] !== undefined) return { next: undefined, outcome: "accepted" };
  const all = isKnown || own.length >= statementsMax ? own : [...own, { pnode, turn, statement }];
  const ofOwner = Object.values({ ...stated, [step]: all }).flatMap((of) => of.filter((one) => one.pnode === pnode));
  if (all !== own && JSON.stringify(ofOwner).length > statementBytesMax)
    fail("resource_exhausted", `PNode ${pnode} states more than VNode ${request.vnode}'s record takes of one owner`);
  const isAbove = ([at]: readonly [string, unknown]) => Number(at) > line;
  const statements = { ...Object.fromEntries(Object.entries(stated).filter(isAbove)), [step]: all };
  const stepHashes = Object.fromEntries(Object.entries(record.stepHashes).filter(isAbove));
  // Of other steps than those that it is about nobody repeats what it says.
  for (const one of request.steps)
    if (one.step > Math.max(line, statement.from)) stepHashes[String(one.step)] ??= one.hash;
  const state = { ...request.state, ...(turn > 0 ? { turn } : {}) };
  const { kept, dropped } = trimmed(session, { [step]: state, ...record.durable });
  const passed = Object.entries(stated).filter((entry) => !isAbove(entry));
  const lists = passed.flatMap(([, of]) => of.flatMap((one) => [one.statement.inputs, one.statement.outputs]));
  return {
    next: {
      ...record,
      ...{
        durable: kept,
        stepHashes,
        statements,
        work: withWork(record, request, session),
        failures: lapsesOf(record),
      },
    },
    outcome: "accepted",
    dropped: [...dropped, ...lists],
  };
}

/** Refuses a statement that is not about what it comes with, or that the caller did not sign. */
function checkStatement(context: Context, session: SessionRecord, { statement, ...request }: DurableRequest): void {
  if (!isChecked(session)) return;
  if (statement === undefined)
    fail("failed_precondition", `session ${session.id} is checked: PNode ${request.pnode} has to sign what it stores`);
  const { from, to } = statement;
  const times = { ...session.identity, ...session.policy };
  const isSpan = from === checkpointBefore(times, from) && to === checkpointAfter(times, from);
  const { hash, bytes } = request.state;
  if (!isSpan || statement.to !== request.step || statement.after !== hash || statement.afterBytes !== bytes)
    fail("invalid_argument", `the statement of PNode ${request.pnode} is about something else than it stores`);
  if (context.verify === undefined || !isSignedBy(statement, request.pnode, context.verify))
    fail("permission_denied", `the statement is not signed by PNode ${request.pnode}`);
}

/** Step roots are made of what is reported here: it has to be what the statement's own list says, which auditors repeat. */
async function checkSteps({ blobs, aside }: Context, { statement, steps, pnode }: DurableRequest): Promise<void> {
  if (statement === undefined) return;
  const { outputs, outputsBytes, from, to, session, vnode } = statement;
  if (outputsBytes > auditBlobBytesMax)
    fail("invalid_argument", `a list of ${outputsBytes} bytes: at most ${auditBlobBytesMax}`);
  const content = await blobs.states.get(outputs).catch((thrown: unknown) => {
    if (isLost(thrown)) fail("aborted", `the list ${outputs} is not stored: upload it, then record it again`);
    throw thrown;
  });
  const listed = await outputSteps(aside, content, { session, vnode, from, to });
  for (const { step, hash } of steps)
    if (step > from && listed.get(step) !== hash)
      fail(
        "invalid_argument",
        `PNode ${pnode} reports another state of VNode ${vnode} after step ${step} than it states`,
      );
}

/** Writes a durable state; the caller moves the line afterwards. */
export async function recordDurable(
  context: Context,
  garbage: Garbage,
  request: DurableRequest,
  weigh: Weigh = async () => undefined,
): Promise<DurableOutcome> {
  const { mirror, blobs } = context;
  const seen = mirror.get(key.session(request.session));
  // A mirror that is behind may not know yet that the session runs: a refusal must rest on what the store holds.
  const isFresh = seen && isLive(seen) && request.turn <= (seen.turn ?? 0);
  const session = isFresh ? seen : await mirror.read(key.session(request.session));
  if (!session) fail("not_found", `there is no session ${request.session}`);
  if (!session.vnodes.includes(request.vnode)) fail("not_found", `session ${session.id} has no VNode ${request.vnode}`);
  if (request.step > session.identity.steps || request.step < 1)
    fail("invalid_argument", `session ${session.id} has ${session.identity.steps} steps, not ${request.step}`);
  if (session.status !== "running" && session.status !== "waiting") return { kind: "fenced" };
  // Before anything is read for it: whoever does not own the VNode must not cost the store more than a look.
  const name = key.vnode(request.session, request.vnode);
  const isMember = (record: VNodeRecord | undefined) => record !== undefined && mayRecord(record, request);
  if (!isMember(mirror.get(name)) && !isMember(await mirror.read(name))) return { kind: "fenced" };
  checkStatement(context, session, request);
  await checkSteps(context, request);
  const state = await storedState(blobs.states, request.state.hash, (reason) =>
    fail("aborted", `${reason}: upload it, then record it again`),
  );
  if (state.bytes !== request.state.bytes)
    fail(
      "invalid_argument",
      `the state ${state.hash} has ${state.bytes} bytes, not the ${request.state.bytes} that PNode ${request.pnode} says`,
    );
  const reason = request.statement && (await weigh(session, request.statement));
  if (reason !== undefined) return { kind: "beyond", reason };
  const refused: DurableStep = { next: undefined, outcome: "fenced" };
  let outcome: DurableStep = refused;
  await mirror.update(name, (current) => {
    const mirrored = mirror.get(key.session(session.id)) ?? session;
    const known = (mirrored.turn ?? 0) < (session.turn ?? 0) ? session : mirrored;
    outcome = current ? withDurable(current, request, known) : refused;
    return "conflict" in outcome ? undefined : outcome.next;
  });
  const result = outcome as DurableStep;
  if ("conflict" in result) {
    const { step, known } = result.conflict;
    context.events.emit(
      "error",
      "vnode.disagreement",
      `VNode ${request.vnode}, step ${step}: PNode ${request.pnode} reports ${request.state.hash.slice(0, 12)}… where ${known.slice(0, 12)}… stands; nothing was written over`,
      { session: request.session, vnode: request.vnode, pnode: request.pnode, step },
    );
    return { kind: "conflict", step, known };
  }
  garbage.add(result.dropped ?? []);
  if (result.outcome === "fenced") return { kind: "fenced" };
  const lists = request.statement ? [request.statement.inputs, request.statement.outputs] : [];
  return { kind: "accepted", line: session.line, blobs: [state.hash, ...state.parts, ...lists] };
}
