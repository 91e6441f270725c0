// What the contract's roles (access.proto) mean at an orchestrator: an API key with a scope, a PNode that is registered and
// was not sent away, another orchestrator of the network.

import { fail } from "../core/errors.ts";
import type { KeyId, PNodeId } from "../core/ids.ts";
import type { Caller, Gate } from "../protocol/network.ts";
import type { Context } from "./context.ts";
import type { Members } from "./fleet/members.ts";
import { key } from "./records/records.ts";
import type { ApiKeys } from "./serving/keys.ts";

/** `networkKey`: what all orchestrators of the network show, and nobody else can. */
export function orchestratorGate(
  { mirror }: Context,
  members: Members,
  keys: ApiKeys,
  networkKey: KeyId | undefined,
): Gate {
  return {
    key: (caller, scope, authorization) => keys.require(scope, authorization, caller.address),
    member: async ({ id }: Caller) => {
      const pnode = id as string as PNodeId;
      members.check(pnode);
      const name = key.pnode(pnode);
      if (!mirror.get(name) && !(await mirror.read(name)))
        fail("permission_denied", `PNode ${id} is not registered: attach first`);
    },
    orchestrator: async ({ id }) => {
      if (id === undefined || id !== networkKey) fail("permission_denied", "this is for orchestrators of the network");
    },
  };
}
