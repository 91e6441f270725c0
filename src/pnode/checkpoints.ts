// Makes states durable in the background: hash, upload, then a record under the owner's epoch. Repeats until it
// is accepted or refused; a refusal means that somebody else owns the VNode now.

import { createHash } from "node:crypto";
import { fail, messageOf } from "../core/errors.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { retry } from "../core/retry.ts";
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
  const { retryMinMs: minMs, retryMaxMs: maxMs } = timings;
  return retry(
    { world, minMs, maxMs, signal },
    async () => {
      await options.blobs.store(options.session, hash, content, signal);
      return record(options, step, hash, content.byteLength, steps);
    },
    (error) =>
      world.log("warn", `checkpoint of ${options.vnode} at step ${step}: ${messageOf(error)}; trying again`, { step }),
  );
}

async function record(
  options: CheckpointOptions,
  step: number,
  state: Sha256,
  bytes: number,
  steps: readonly StepHash[],
): Promise<Recorded> {
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
  // Once each: if the state is not where it was stored, it has to be stored again, not only recorded.
  const answer = await orchestrators.call(PNodeService.method.recordDurable, request, signal, orchestrators.count);
  if (answer.accepted) return { kind: "accepted", line: Number(answer.line), turn: Number(answer.turn) };
  if (options.epoch() > epoch) fail("aborted", "the VNode is owned under a newer epoch by now");
  return { kind: "fenced" };
}

async function hashInPieces(content: Uint8Array, world: World, signal: AbortSignal): Promise<Sha256> {
  const hash = createHash("sha256");
  for (let at = 0; at < content.byteLength; at += hashPieceBytes) {
    hash.update(content.subarray(at, at + hashPieceBytes));
    if (at + hashPieceBytes < content.byteLength) await sleep(world.timers, 0, signal);
  }
  return hash.digest("hex") as Sha256;
}
