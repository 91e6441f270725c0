// What the contract's roles (access.proto) mean at an orchestrator: an API key with a scope, a PNode that is registered and
// was not sent away, another orchestrator of the network.

import { fail } from "../core/errors.ts";
import type { PNodeId } from "../core/ids.ts";
import { type Caller, type Gate, isKnownBy, type Network } from "../protocol/network.ts";
import type { Context } from "./context.ts";
import type { Members } from "./fleet/attached/members.ts";
import { key } from "./records/store-keys.ts";
import type { ApiKeys } from "./rights/keys.ts";

export interface GateNeeds {
  readonly context: Context;
  readonly members: Members;
  readonly keys: ApiKeys;
  /** Shows what all orchestrators of the network show, and nobody else can. */
  readonly network: Pick<Network, "id" | "keys">;
  readonly identify?: Gate["identify"];
}

export function orchestratorGate({ context, members, keys, network, identify }: GateNeeds): Gate {
  const { mirror } = context;
  const member = async ({ id }: Caller) => {
    const pnode = id as string as PNodeId;
    members.check(pnode);
    const name = key.pnode(pnode);
    if (!mirror.get(name) && !(await mirror.read(name)))
      fail("permission_denied", `PNode ${id} is not registered: attach first`);
  };
  return {
    ...(identify && { identify }),
    key: (caller, scope, authorization) => keys.require(scope, authorization, caller),
    member,
    network: async (caller) => {
      if (network.id === undefined || !isKnownBy(network, network.id, caller)) await member(caller);
    },
    orchestrator: async (caller) => {
      if (network.id === undefined || !isKnownBy(network, network.id, caller))
        fail("permission_denied", "this is for orchestrators of the network");
    },
  };
}
