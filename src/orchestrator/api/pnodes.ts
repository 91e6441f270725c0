// PNodeService: what PNodes ask for. Attach goes to the registry; the rest reads records and hands out addresses.

import { blobAllowanceDefault } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { type PNodeId, parseSha256, type Sha256 } from "../../core/ids.ts";
import { trainingToWire } from "../../network/settings/wire.ts";
import { BlobSpace } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { BlobAction, PNodeService } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { lineProbeBytesMax, type ServedService, service } from "../../protocol/network.ts";
import { grantsAtOnceMax } from "../../states/grants.ts";
import type { BlobGrant, BlobSpace as StoredBlobs } from "../../store/blobs/blob-store.ts";
import type { Context } from "../context.ts";
import { type Assignments, lineOf } from "../fleet/attached/assignments.ts";
import { pnodeOf } from "../fleet/attached/registration.ts";
import type { Registry } from "../fleet/attached/registry.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import type { ReplicaRecord, SessionRecord } from "../records/sessions.ts";
import { findWorkload, isReplica } from "../records/workloads.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { type DurableRequest, parseDurable, recordDurable } from "../sessions/durable.ts";
import type { Garbage } from "../sessions/garbage.ts";
import type { SessionCare } from "../sessions/session-care.ts";
import type { Weigher } from "../trust/cap/weigher.ts";
import type { BlobRights } from "../workloads/blob-rights.ts";
import type { Controller } from "../workloads/controller.ts";
import { noteFailure } from "../workloads/failures.ts";
import type { UploadAllowance } from "../workloads/upload-allowance.ts";

export interface PNodeApiNeeds {
  readonly context: Context;
  readonly registry: Registry;
  readonly assignments: Assignments;
  readonly rooms: Rooms;
  readonly sessions: SessionCare;
  readonly controller: Controller;
  readonly garbage: Garbage;
  readonly compiled: Compiled;
  readonly capacity: Capacity;
  readonly blobRights: BlobRights;
  readonly allowance: UploadAllowance;
  readonly weigher: Weigher;
}

const { grantLifetimeMs } = blobAllowanceDefault;
/** More would be an attack: there is one for each checkpoint under way. */
const unsureMax = 10_000;

export function pnodeService(needs: PNodeApiNeeds): ServedService {
  const { context, assignments, controller } = needs;
  const { mirror } = context;
  /** Manifests of states that could not be recorded. */
  const unsure = new Set<Sha256>();
  return service(PNodeService, {
    attach: (channel, call) => needs.registry.attach(channel, call),
    pulse: (channel) => needs.registry.pulses.serve(channel),
    measureLine: async ({ padding }) => {
      if (padding.byteLength > lineProbeBytesMax)
        fail("invalid_argument", `a line is measured by at most ${lineProbeBytesMax} bytes, not ${padding.byteLength}`);
      return {};
    },
    resolve: async ({ session: id, vnodes }) => {
      const workload = await findWorkload(mirror, id);
      const only = vnodes.length > 0 ? new Set(vnodes) : undefined;
      const locations = assignments.locations(workload, only);
      // Somebody needs it now: look for a place without waiting for the next change.
      if (new Set(locations.map((one) => one.vnode)).size < (only?.size ?? workload.vnodes.length))
        controller.touch(workload.id, true);
      return { locations, revision: assignments.revision(id), ...lineOf(mirror, id) };
    },
    recordDurable: async (message, { caller }) => {
      const request = parseDurable(message, pnodeOf(caller));
      const outcome = await recordDurable(context, needs.garbage, request, needs.weigher.weigh).catch(
        (thrown: unknown) => {
          // The manifest may lie damaged where it is: the next upload replaces it.
          if (unsure.size < unsureMax) unsure.add(request.state.hash);
          throw thrown;
        },
      );
      if (outcome.kind === "conflict") {
        disagreed(needs, request);
        fail(
          "already_exists",
          `step ${outcome.step} of VNode ${request.vnode} already has the hash ${outcome.known}: the two differ, nothing was written`,
        );
      }
      if (outcome.kind === "beyond") {
        const detail = `its state after step ${request.step} is none that its optimizer could come to: ${outcome.reason}`;
        await needs.weigher.refuse(request, detail);
        fail("already_exists", `VNode ${request.vnode}: ${detail}; nothing was written`);
      }
      if (outcome.kind === "accepted") {
        needs.allowance.recorded(request.pnode, outcome.blobs);
        await needs.sessions.advance(request.session);
      }
      return { accepted: outcome.kind === "accepted", ...lineOf(mirror, request.session) };
    },
    grantBlob: async ({ session, hash, bytes, action, space, more }, { caller }) => {
      const asker = { pnode: pnodeOf(caller), session, space };
      if (action === BlobAction.UPLOAD) {
        const [first, ...others] = await grantUploads(needs, asker, [{ hash, bytes }, ...more], unsure);
        return { ...first, more: others };
      }
      if (action !== BlobAction.DOWNLOAD)
        fail("invalid_argument", "say whether the blob is to be uploaded or downloaded");
      const [first, ...others] = await grantDownloads(needs, asker, [hash, ...more.map((blob) => blob.hash)]);
      return { ...first, more: others };
    },
    describeSession: async ({ session: id }) => {
      const workload = await findWorkload(mirror, id);
      const definition = await needs.compiled.text(workload.identity.definition);
      const beside = isReplica(workload) ? workload.draft : undefined;
      const text = beside && (await needs.compiled.text(beside.definition));
      return { session: workload.id, definition, work: workOf(workload, text) };
    },
  });
}

interface BlobAsker {
  readonly pnode: PNodeId;
  readonly session: string;
  readonly space: BlobSpace;
}

interface AskedBlob extends BlobAsker {
  readonly hash: Sha256;
}

const parseBlobName = (text: string) => parseSha256(text, "the blob's name");

/** PNodes store states of VNodes that they host, and nothing else. One that is refused refuses all. */
async function grantUploads(
  needs: PNodeApiNeeds,
  asker: BlobAsker,
  named: readonly { readonly hash: string; readonly bytes: bigint }[],
  unsure: Set<Sha256>,
) {
  if (asker.space !== BlobSpace.STATES) fail("permission_denied", "a PNode uploads states only: name their space");
  refuseMany(named);
  const blobs = named.map(({ hash, bytes }) => ({ hash: parseBlobName(hash), bytes: Number(bytes) }));
  await needs.blobRights.mayUpload(asker.pnode, asker.session);
  const grants = [];
  for (const { hash, bytes } of blobs) grants.push(await grantUpload(needs, { ...asker, hash }, bytes, unsure));
  return grants;
}

async function grantUpload(
  { context, garbage, blobRights, allowance, capacity }: PNodeApiNeeds,
  { pnode, session, hash }: AskedBlob,
  bytes: number,
  unsure: Set<Sha256>,
) {
  const replace = unsure.delete(hash);
  const { states } = context.blobs;
  garbage.wanted(hash);
  if (!replace && (await states.size(hash)) === bytes) return { present: true };
  const grant = await states.grant("upload", hash, bytes, grantLifetimeMs);
  // What an audit waits for is no hoarding.
  if (!(await blobRights.isAwaited(session, hash))) allowance.take(pnode, hash, bytes, capacity.memoryHeldBytes(pnode));
  return wireGrant(grant);
}

function refuseMany({ length }: readonly unknown[]): void {
  if (length > grantsAtOnceMax)
    fail("invalid_argument", `${length} blobs are named, at most ${grantsAtOnceMax} are granted at once`);
}

/** One that is refused refuses all. Of those beside the first, one that is not there is only told to be absent. */
async function grantDownloads(needs: PNodeApiNeeds, asker: BlobAsker, named: readonly string[]) {
  refuseMany(named);
  const grants = [];
  for (const hash of named.map(parseBlobName)) {
    const grant = await grantDownload(needs, { ...asker, hash });
    if (grants.length === 0 && !grant.present) fail("not_found", `there is no blob ${hash}`);
    grants.push(grant);
  }
  return grants;
}

/** What the caller's VNodes name, and nothing else. */
async function grantDownload({ context, blobRights }: PNodeApiNeeds, { pnode, session, space, hash }: AskedBlob) {
  const blobs = await readableBlobs(blobRights, context, { pnode, session, space, hash });
  const bytes = await blobs.size(hash);
  if (bytes === undefined) return { present: false };
  const grant = await blobs.grant("download", hash, bytes, grantLifetimeMs);
  return { ...wireGrant(grant), present: true, bytes: BigInt(bytes) };
}

async function readableBlobs(
  blobRights: BlobRights,
  { blobs }: Context,
  { pnode, session, space, hash }: AskedBlob,
): Promise<StoredBlobs> {
  switch (space) {
    case BlobSpace.STATES:
      await blobRights.mayReadState(pnode, session, hash);
      return blobs.states;
    case BlobSpace.DATASETS:
      await blobRights.mayReadData(pnode, session, hash);
      return blobs.datasets;
    case BlobSpace.VOCABULARIES:
      await blobRights.mayReadVocabulary(pnode, session, hash);
      return blobs.vocabularies;
    default:
      return fail("permission_denied", "a PNode downloads states, datasets and vocabularies only: name their space");
  }
}

function wireGrant({ url, headers, expiresWallMs }: BlobGrant) {
  return { url, headers: { ...headers }, expiresWallMs: BigInt(Math.round(expiresWallMs)) };
}

/** A PNode reports another hash than the one that stands: somebody computed wrongly. */
function disagreed({ context, rooms }: PNodeApiNeeds, { session, vnode, pnode, epoch, step }: DurableRequest): void {
  const detail = `its state after step ${step} differs from the one that was recorded before`;
  context.tasks.insist(`the disagreement about ${vnode}`, () =>
    noteFailure(context, rooms, { workload: session, vnode, pnode, epoch, detail, kind: "failed" }),
  );
}

/** `draft`: the definition of what guesses beside a replica's head. */
function workOf(workload: SessionRecord | ReplicaRecord, draft: string | undefined) {
  if (isReplica(workload)) {
    const { definition, numerics, states, bits = 0, weights = "" } = workload.identity;
    const audited = workload.policy.audit ?? false;
    const told = workload.draft && {
      ...{ definition: workload.draft.definition, text: draft ?? "" },
      ...{ states: hashesOf(workload.draft.states), weights: workload.draft.weights ?? "" },
    };
    const value = { definition, numerics, states: hashesOf(states), weights, audited, bits };
    return { case: "serving" as const, value: { ...value, ...(told && { draft: told }) } };
  }
  const { identity, policy } = workload;
  return { case: "training" as const, value: trainingToWire({ identity, policy }) };
}

function hashesOf(states: Readonly<Record<string, { readonly hash: string }>>): Record<string, string> {
  return Object.fromEntries(Object.entries(states).map(([vnode, { hash }]) => [vnode, hash]));
}
