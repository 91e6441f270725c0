// RightsService: who somebody is here, what people's own keys are good for, and the log of acts.

import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { successionsMax } from "../../core/keys.ts";
import { RightsService } from "../../protocol/gen/dcnr/v1/rights_pb.ts";
import { type CallContext, type Network, type ServedService, service } from "../../protocol/network.ts";
import type { ActRecord, Acts } from "../rights/acts.ts";
import type { ApiKeys } from "../rights/keys.ts";
import type { Proofs } from "../rights/proofs.ts";
import { keyView } from "./inference.ts";

export interface RightsApiNeeds {
  readonly keys: ApiKeys;
  readonly acts: Acts;
  readonly proofs: Proofs;
  readonly network: Pick<Network, "id" | "key">;
  readonly rotateNetworkKey: (() => Promise<KeyId>) | undefined;
}

export function rightsService({ keys, acts, proofs, network, rotateNetworkKey }: RightsApiNeeds): ServedService {
  const networkKey = () => network.key ?? network.id ?? "";
  return service(RightsService, {
    getCaller: async (_, context) => {
      const { id = "", address } = context.caller;
      return { id, address, networkKey: networkKey(), ...(await rolesOf(keys, context)) };
    },
    getChallenge: async (_, { caller }) => {
      const { nonce, expiresWallMs } = proofs.challenge(caller);
      return { nonce, expiresWallMs: BigInt(expiresWallMs), networkKey: networkKey() };
    },
    proveKey: async (answer, { caller }) => {
      if (answer.former.length > successionsMax)
        fail("invalid_argument", `a key has succeeded at most ${successionsMax} others`);
      const { id, token, expiresWallMs } = await proofs.prove(answer, caller);
      return { id, token, expiresWallMs: BigInt(expiresWallMs) };
    },
    rotateNetworkKey: async () => {
      if (rotateNetworkKey === undefined)
        fail("failed_precondition", "this orchestrator's network has no key to replace");
      return { networkKey: await rotateNetworkKey() };
    },
    admitKey: async ({ key, name, lifetimeSeconds, ...wish }) => {
      const lifetimeMs = Number(lifetimeSeconds) * 1_000;
      return { key: keyView(await keys.admit(key, { ...wish, name: name || wish.owner, lifetimeMs })) };
    },
    listActs: async ({ what, subject, who, sinceWallMs, untilWallMs, limit, pageToken }) => {
      const filter = { what, subject, who, limit, after: pageToken };
      const span = { sinceWallMs: Number(sinceWallMs), untilWallMs: Number(untilWallMs) };
      const found = await acts.list({ ...filter, ...span });
      return { acts: found.acts.map(view), nextPageToken: found.next };
    },
  });
}

async function rolesOf(keys: ApiKeys, { caller, header }: CallContext) {
  try {
    const { scopes, owner } = await keys.rolesOf(header("authorization"), caller);
    return { scopes: [...scopes], owner };
  } catch (thrown) {
    const error = DcnrError.from(thrown);
    if (error.code !== "unauthenticated") throw error;
    return { refusal: error.message };
  }
}

function view({ wallMs, ...act }: ActRecord) {
  return { ...act, wallMs: BigInt(wallMs) };
}
