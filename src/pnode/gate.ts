// What the contract's roles (access.proto) mean at a PNode: peers are PNodes that own something of a session that is at home
// here, as orchestrators say; orchestrators are those who show the network's key. Nobody else has anything to ask of it.

import { fail } from "../core/errors.ts";
import type { Gate } from "../protocol/network.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Resolver } from "./resolver.ts";
import type { Vouching } from "./vouching.ts";

export function pnodeGate(
  resolver: Resolver,
  orchestrators: Orchestrators,
  vouching: Vouching,
  isCrew: (pnode: string) => boolean = () => false,
): Gate {
  return {
    network: async (caller) => {
      const { id } = caller;
      const { networkKey } = orchestrators;
      if (id === undefined) fail("unauthenticated", "a relay is for machines that show a key");
      if (networkKey !== undefined && orchestrators.isKnownBy(networkKey, caller)) return;
      if (!orchestrators.isKnownBy(id, caller))
        fail("permission_denied", `the key of PNode ${id} was replaced by a newer one: use that`);
      await vouching.check(id);
    },
    key: async () => fail("permission_denied", "PNodes take no API keys: ask an orchestrator"),
    member: async (caller) => {
      const { id } = caller;
      if (id === undefined || !(isCrew(id) || (await resolver.isPeer(id))))
        fail("permission_denied", `PNode ${id} owns nothing here that orchestrators know of`);
      if (!orchestrators.isKnownBy(id, caller))
        fail("permission_denied", `the key of PNode ${id} was replaced by a newer one: use that`);
    },
    orchestrator: async (caller) => {
      const { networkKey } = orchestrators;
      if (networkKey === undefined || !orchestrators.isKnownBy(networkKey, caller))
        fail("permission_denied", "this is for orchestrators of the network");
    },
  };
}
