// Makes states durable in the background: upload what is not stored yet, then a record under the owner's epoch. Repeats
// until it is accepted or refused; a refusal means that somebody else owns the VNode now.

import { fail, messageOf } from "../core/errors.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import { retry } from "../core/retry.ts";
import type { World } from "../core/world.ts";
import { PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { StateImage } from "../states/cut.ts";
import { type Statement, signed, statementToWire } from "../trust/statement.ts";
import type { Passage } from "../vnode/transcript.ts";
import type { BlobClient } from "./blob-client.ts";
import type { Timings } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Snapshot } from "./snapshots.ts";
import { equationOf, listsOf } from "./stating.ts";
import { lineOf, type ToldLine } from "./told-line.ts";
import type { LifeRecord } from "./training/life.ts";

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

export type Recorded = { readonly kind: "accepted"; readonly told: ToldLine } | { readonly kind: "fenced" };

/** What is to become durable. */
export interface Checkpoint {
  readonly step: number;
  readonly turn: number;
  readonly steps: readonly StepHash[];
  /** Where statements are made: what happened since the checkpoint before. */
  readonly stating: { readonly passage: Passage; readonly record: LifeRecord } | undefined;
}

/** The snapshot is the caller's to release. */
export async function makeDurable(
  options: CheckpointOptions,
  checkpoint: Checkpoint,
  snapshot: Pick<Snapshot, "manifest" | "part" | "bytes">,
): Promise<Recorded> {
  const { world, signal, timings, blobs } = options;
  const { retryMinMs: minMs, retryMaxMs: maxMs } = timings;
  const { step } = checkpoint;
  return retry(
    { world, minMs, maxMs, signal },
    async () => {
      const state = await blobs.storeState(options.session, snapshot, signal);
      const statement = await stateWhatHappened(options, checkpoint, state, snapshot.bytes);
      const recorded = await record(options, checkpoint, state, snapshot.bytes, statement);
      if (checkpoint.stating) checkpoint.stating.record.before = state;
      return recorded;
    },
    (error) =>
      world.log("warn", `checkpoint of ${options.vnode} at step ${step}: ${messageOf(error)}; trying again`, { step }),
  );
}

/** Signs what the interval's messages and the states at its ends say; the lists are stored first. */
async function stateWhatHappened(
  { session, vnode, blobs, signal }: CheckpointOptions,
  { stating }: Checkpoint,
  after: Sha256,
  afterBytes: number,
): Promise<Statement | undefined> {
  if (stating === undefined) return undefined;
  const { passage, record: life } = stating;
  const { inputs, outputs } = listsOf({ session, vnode }, passage);
  const lists = [inputs, outputs];
  const wanted = lists.map(({ hash, content }) => ({ hash, bytes: content.byteLength }));
  const stores = await blobs.grantLists(session, wanted, signal);
  for (const [at, { content }] of lists.entries()) await stores[at]?.(async () => content);
  return signed(equationOf({ session, vnode }, passage, { inputs, outputs, after, afterBytes, life }), life.signing);
}

async function record(
  options: CheckpointOptions,
  { step, turn, steps }: Checkpoint,
  state: Sha256,
  bytes: number,
  statement: Statement | undefined,
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
    turn: BigInt(turn),
    ...(statement && { statement: statementToWire(statement) }),
  };
  // Once each: if the state is not where it was stored, it has to be stored again, not only recorded.
  const answer = await orchestrators.call(PNodeService.method.recordDurable, request, signal, orchestrators.count);
  if (answer.accepted) return { kind: "accepted", told: lineOf(answer) };
  if (options.epoch() > epoch) fail("aborted", "the VNode is owned under a newer epoch by now");
  return { kind: "fenced" };
}
