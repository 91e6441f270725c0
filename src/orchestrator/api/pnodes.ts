// PNodeService: what PNodes ask for. Attach goes to the registry; the rest reads records and hands out addresses.

import { fail } from "../../core/errors.ts";
import { canonicalJson } from "../../core/hash.ts";
import { type PNodeId, parseId, parseSha256 } from "../../core/ids.ts";
import { BlobAction, PNodeService } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { Assignments } from "../fleet/assignments.ts";
import type { Registry } from "../fleet/registry.ts";
import { findSession } from "../records/fresh.ts";
import { key } from "../records/records.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Controller } from "../sessions/controller.ts";
import { parseDurable, recordDurable } from "../sessions/durable.ts";
import type { Garbage } from "../sessions/garbage.ts";

export interface PNodeApiNeeds {
  readonly context: Context;
  readonly registry: Registry;
  readonly assignments: Assignments;
  readonly controller: Controller;
  readonly garbage: Garbage;
  readonly compiled: Compiled;
}

const grantLifetimeMs = 15 * 60_000;
/** One VNode's state; larger VNodes do not fit into a volunteer's memory either. */
const blobBytesMax = 16 * 2 ** 30;

export function pnodeService(needs: PNodeApiNeeds): ServedService {
  const { context, assignments, controller } = needs;
  const { mirror, blobs } = context;
  return service(PNodeService, {
    attach: (channel, call) => needs.registry.attach(channel, call),
    pulse: (channel) => needs.registry.pulses.serve(channel),
    resolve: async ({ session: id, vnodes }) => {
      const session = await findSession(needs.context, id);
      const only = vnodes.length > 0 ? new Set(vnodes) : undefined;
      const locations = assignments.locations(session, only);
      // Somebody needs it now: look for a place without waiting for the next change.
      if (new Set(locations.map((one) => one.vnode)).size < (only?.size ?? session.vnodes.length))
        controller.touch(session.id, true);
      const { line, turn = 0 } = session;
      return { locations, line: BigInt(line), revision: assignments.revision(id), turn: BigInt(turn) };
    },
    recordDurable: async (message) => {
      const request = parseDurable(message);
      const outcome = await recordDurable(context, needs.garbage, request);
      if (outcome.kind === "conflict") {
        controller.disagreed(request);
        fail(
          "already_exists",
          `step ${outcome.step} of VNode ${request.vnode} already has the hash ${outcome.known}: the two differ, nothing was written`,
        );
      }
      if (outcome.kind === "accepted") await controller.advance(request.session);
      const { line = 0, turn = 0 } = mirror.get(key.session(request.session)) ?? {};
      return { accepted: outcome.kind === "accepted", line: BigInt(line), turn: BigInt(turn) };
    },
    grantBlob: async ({ pnode, hash: text, bytes, action }) => {
      const id = parseId<PNodeId>(pnode, "the PNode");
      if (!mirror.get(key.pnode(id)) && !(await mirror.read(key.pnode(id))))
        fail("permission_denied", `PNode ${id} is not registered: attach first`);
      const hash = parseSha256(text, "the blob's name");
      const size = await blobs.size(hash);
      if (action === BlobAction.UPLOAD) {
        if (size !== undefined) return { present: true };
        if (Number(bytes) > blobBytesMax)
          fail("resource_exhausted", `${bytes} bytes are too many: at most ${blobBytesMax}`);
        const grant = await blobs.grant("upload", hash, Number(bytes), grantLifetimeMs);
        return {
          url: grant.url,
          headers: { ...grant.headers },
          expiresWallMs: BigInt(Math.round(grant.expiresWallMs)),
        };
      }
      if (action !== BlobAction.DOWNLOAD)
        fail("invalid_argument", "say whether the blob is to be uploaded or downloaded");
      if (size === undefined) fail("not_found", `there is no blob ${hash}`);
      const grant = await blobs.grant("download", hash, size, grantLifetimeMs);
      return {
        url: grant.url,
        headers: { ...grant.headers },
        expiresWallMs: BigInt(Math.round(grant.expiresWallMs)),
        present: true,
      };
    },
    describeSession: async ({ session: id }) => {
      const session = await findSession(needs.context, id);
      const definition = await needs.compiled.text(session.identity.definition);
      return {
        session: session.id,
        definition,
        settings: canonicalJson({
          identity: session.identity,
          policy: session.policy,
          ...(session.serving ? { serving: { states: hashesOf(session.initialStates ?? {}) } } : {}),
        }),
      };
    },
  });
}

function hashesOf(states: Readonly<Record<string, { readonly hash: string }>>): Record<string, string> {
  return Object.fromEntries(Object.entries(states).map(([vnode, { hash }]) => [vnode, hash]));
}
