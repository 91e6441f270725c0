// Checkpoints become durable here: one compare-and-set under the owner's epoch. Another hash for a step that
// has one already is never written over; it means that one of two computations was wrong, and is said aloud.

import { fail } from "../../core/errors.ts";
import { type PNodeId, parseId, parseSha256, type SessionId, type Sha256, type VNodeId } from "../../core/ids.ts";
import type { RecordDurableRequest } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Context } from "../context.ts";
import { key, type SessionRecord, type VNodeRecord } from "../records/records.ts";
import { isLive } from "../records/workloads.ts";
import { type Garbage, trimmed } from "./garbage.ts";
import { storedState } from "./stored-states.ts";

/** A record stays far below the store's bound: 64 hex digits a step. */
const stepHashesMax = 3_000;

export type DurableOutcome =
  | { readonly kind: "accepted"; readonly line: number }
  | { readonly kind: "fenced" }
  | { readonly kind: "conflict"; readonly step: number; readonly known: string };

export interface DurableRequest {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly pnode: PNodeId;
  readonly epoch: number;
  readonly step: number;
  readonly state: { readonly hash: Sha256; readonly bytes: number };
  readonly steps: readonly { readonly step: number; readonly hash: string }[];
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
export function withDurable(record: VNodeRecord, request: DurableRequest, session: SessionRecord): DurableStep {
  const { line } = session;
  if (!mayRecord(record, request)) return { next: undefined, outcome: "fenced" };
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
  const complete =
    known !== undefined && request.steps.every(({ step }) => step <= line || record.stepHashes[String(step)]);
  if (complete) return { next: undefined, outcome: "accepted" };
  const state = request.state;
  // What lies below the line goes in the same write, so that garbage is collected under the same fence.
  const { kept, dropped } = trimmed(session, { [String(request.step)]: state, ...record.durable });
  return { next: { ...record, durable: kept, stepHashes, failures: [] }, outcome: "accepted", dropped };
}

/** Writes a durable state; the caller moves the line afterwards. */
export async function recordDurable(
  context: Context,
  garbage: Garbage,
  request: DurableRequest,
): Promise<DurableOutcome> {
  const { mirror, blobs } = context;
  const seen = mirror.get(key.session(request.session));
  // A mirror that is behind may not know yet that the session runs: a refusal must rest on what the store holds.
  const session = seen && isLive(seen) ? seen : await mirror.read(key.session(request.session));
  if (!session) fail("not_found", `there is no session ${request.session}`);
  if (!session.vnodes.includes(request.vnode)) fail("not_found", `session ${session.id} has no VNode ${request.vnode}`);
  if (request.step > session.identity.steps || request.step < 1)
    fail("invalid_argument", `session ${session.id} has ${session.identity.steps} steps, not ${request.step}`);
  if (session.status !== "running" && session.status !== "waiting") return { kind: "fenced" };
  const state = await storedState(blobs.states, request.state.hash, (reason) =>
    fail("aborted", `${reason}: upload it, then record it again`),
  );
  if (state.bytes !== request.state.bytes)
    fail(
      "invalid_argument",
      `the state ${state.hash} has ${state.bytes} bytes, not the ${request.state.bytes} that PNode ${request.pnode} says`,
    );
  const refused: DurableStep = { next: undefined, outcome: "fenced" };
  let outcome: DurableStep = refused;
  await mirror.update(key.vnode(request.session, request.vnode), (current) => {
    const known = mirror.get(key.session(session.id)) ?? session;
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
  return result.outcome === "fenced" ? { kind: "fenced" } : { kind: "accepted", line: session.line };
}
