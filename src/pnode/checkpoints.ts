// Makes states durable in the background: hash, upload, then a record under the owner's epoch. Repeats until it
// is accepted or refused; a refusal means that somebody else owns the VNode now.

import { createHash } from "node:crypto";
import { Backoff } from "../core/backoff.ts";
import { DcnrError, hasCode, messageOf } from "../core/errors.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { sleep, type World } from "../core/world.ts";
import { PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { BlobClient } from "./blob-client.ts";
import type { Timings } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";

export interface CheckpointOptions {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly pnode: string;
  readonly orchestrators: Orchestrators;
  readonly blobs: BlobClient;
  readonly world: World;
  readonly timings: Timings;
  readonly signal: AbortSignal;
  /** As of now: it may grow while an upload is under way. */
  readonly epoch: () => number;
}

export interface StepHash {
  readonly step: number;
  readonly hash: string;
}

export type Recorded =
  | { readonly kind: "accepted"; readonly line: number; readonly turn: number }
  | { readonly kind: "fenced" };

/** Between two of these the thread is free for others: a large state takes a second to hash. */
const hashPieceBytes = 8 << 20;

export async function makeDurable(
  options: CheckpointOptions,
  step: number,
  content: Uint8Array,
  steps: readonly StepHash[],
): Promise<Recorded> {
  const { world, signal, timings } = options;
  const hash = await hashInPieces(content, world, signal);
  const backoff = new Backoff(timings.retryMinMs, timings.retryMaxMs, world.chance);
  for (;;) {
    try {
      await options.blobs.store(options.session, hash, content, signal);
      const recorded = await record(options, step, hash, content.byteLength, steps);
      if (recorded !== undefined) return recorded;
    } catch (error) {
      if (signal.aborted || isFinal(error)) throw error;
      world.log("warn", `checkpoint of ${options.vnode} at step ${step}: ${messageOf(error)}; trying again`, { step });
    }
    await sleep(world.timers, backoff.next(), signal);
    if (signal.aborted) throw new DcnrError("cancelled", "the PNode stops");
  }
}

/** Undefined if the record has to be tried again under a newer epoch. */
async function record(
  options: CheckpointOptions,
  step: number,
  state: Sha256,
  bytes: number,
  steps: readonly StepHash[],
): Promise<Recorded | undefined> {
  const { session, vnode, pnode, orchestrators, signal } = options;
  const epoch = options.epoch();
  const request = {
    session,
    vnode,
    pnode,
    epoch: BigInt(epoch),
    step: BigInt(step),
    state,
    stateBytes: BigInt(bytes),
    steps: steps.map((entry) => ({ step: BigInt(entry.step), hash: entry.hash })),
  };
  const answer = await orchestrators.call(PNodeService.method.recordDurable, request, signal);
  if (answer.accepted) return { kind: "accepted", line: Number(answer.line), turn: Number(answer.turn) };
  return options.epoch() > epoch ? undefined : { kind: "fenced" };
}

/** Another state is durable under this name, or the request makes no sense: repeating would not help. */
function isFinal(error: unknown): boolean {
  const codes = ["invalid_argument", "not_found", "already_exists", "permission_denied", "unauthenticated"] as const;
  return codes.some((code) => hasCode(error, code));
}

async function hashInPieces(content: Uint8Array, world: World, signal: AbortSignal): Promise<Sha256> {
  const hash = createHash("sha256");
  for (let at = 0; at < content.byteLength; at += hashPieceBytes) {
    hash.update(content.subarray(at, at + hashPieceBytes));
    if (at + hashPieceBytes < content.byteLength) await sleep(world.timers, 0, signal);
  }
  return hash.digest("hex") as Sha256;
}
