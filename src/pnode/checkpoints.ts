// Makes states durable in the background: upload what is not stored yet, then a record under the owner's epoch. Repeats
// until it is accepted or refused; a refusal means that somebody else owns the VNode now.

import { fail, messageOf } from "../core/errors.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { retry } from "../core/retry.ts";
import type { World } from "../core/world.ts";
import { PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { StateImage } from "../states/cut.ts";
import type { BlobClient } from "./blob-client.ts";
import type { Timings } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Snapshot } from "./snapshots.ts";

export interface CheckpointOptions {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly orchestrators: Orchestrators;
  readonly blobs: BlobClient;
  readonly world: World;
  readonly timings: Timings;
  readonly signal: AbortSignal;
  readonly snapshot: (image: StateImage) => Snapshot;
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

/** The snapshot is the caller's to release. */
export async function makeDurable(
  options: CheckpointOptions,
  step: number,
  snapshot: Snapshot,
  steps: readonly StepHash[],
): Promise<Recorded> {
  const { world, signal, timings, blobs } = options;
  const { retryMinMs: minMs, retryMaxMs: maxMs } = timings;
  return retry(
    { world, minMs, maxMs, signal },
    async () => {
      const state = await blobs.storeState(options.session, snapshot, signal);
      return record(options, step, state, snapshot.bytes, steps);
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
  const { session, vnode, orchestrators, signal } = options;
  const epoch = options.epoch();
  const request = {
    session,
    vnode,
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
