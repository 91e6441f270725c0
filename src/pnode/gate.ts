// What the contract's roles (access.proto) mean at a PNode: peers are PNodes that own something of a session that is at home
// here, as orchestrators say; orchestrators are those who show the network's key. Nobody else has anything to ask of it.

import { fail } from "../core/errors.ts";
import type { Gate } from "../protocol/network.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Resolver } from "./resolver.ts";

export function pnodeGate(resolver: Resolver, { networkKey }: Orchestrators): Gate {
  return {
    key: async () => fail("permission_denied", "PNodes take no API keys: ask an orchestrator"),
    member: async ({ id }) => {
      if (id === undefined || !(await resolver.isPeer(id)))
        fail("permission_denied", `PNode ${id} owns nothing here that orchestrators know of`);
    },
    orchestrator: async ({ id }) => {
      if (id === undefined || id !== networkKey) fail("permission_denied", "this is for orchestrators of the network");
    },
  };
}
