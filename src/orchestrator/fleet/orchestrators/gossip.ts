// An orchestrator as a member among members: it says where it is to whoever has lost the others, hears of machines that no
// record of its store names yet, and permits those who are registered to take part.

import type { PNodeId } from "../../../core/ids.ts";
import type { Facts } from "../../../membership/member.ts";
import { Membership, type MembershipOptions, permitEnd } from "../../../membership/membership.ts";
import { type PermitFacts, permit } from "../../../membership/records.ts";
import { networkToWire, permitToWire } from "../../../membership/service.ts";
import type { Network } from "../../../protocol/network.ts";
import { withKey } from "../../../protocol/routes/address.ts";
import type { Context } from "../../context.ts";
import { key, prefix } from "../../records/store-keys.ts";
import type { Members } from "../attached/members.ts";
import type { Presence } from "./presence.ts";

/** What membership needs of the machine; `identity` holds the network's key. */
export type GossipDependencies = Pick<MembershipOptions, "identity" | "keys" | "file" | "timings" | "openGossip">;

export interface GossipNeeds {
  readonly context: Context;
  readonly network: Network;
  readonly members: Members;
  readonly presence: Presence;
}

/** What a registration says to a PNode that may take part. */
export interface Admission {
  readonly permit: { readonly signature: Uint8Array<ArrayBuffer>; readonly expiresSeconds: number };
  readonly networkPublicKey: Uint8Array<ArrayBuffer>;
  readonly networkFormer: Uint8Array<ArrayBuffer>[];
}

/** Asked at a time; a fleet that none of these knows of any more is found by the next ones. */
const contactsMax = 64;

export class OrchestratorGossip {
  readonly #needs: GossipNeeds;
  readonly #given: GossipDependencies;
  readonly membership: Membership;

  constructor(needs: GossipNeeds, given: GossipDependencies) {
    const { context, network } = needs;
    this.#needs = needs;
    this.#given = given;
    this.membership = new Membership({
      ...given,
      ...{ id: context.id, role: "orchestrator" as const, incarnation: context.incarnation },
      ...{ networkKey: given.identity.id, network, world: context.world },
      facts: () => this.#facts(),
      contacts: () => this.#contacts(),
      permit: async (pnode) => this.#permit(pnode as PNodeId),
    });
  }

  /** For a PNode that has just been registered. */
  admission(pnode: PNodeId): Admission {
    return { permit: permitToWire(this.#newPermit(pnode)), ...networkToWire({ shown: this.#given.identity }) };
  }

  #permit(pnode: PNodeId): PermitFacts | undefined {
    const { context, members } = this.#needs;
    const isMember = context.mirror.get(key.pnode(pnode)) !== undefined && !members.isRevoked(pnode);
    return isMember ? this.#newPermit(pnode) : undefined;
  }

  #newPermit(pnode: PNodeId): PermitFacts {
    return permit(this.#given.identity, pnode, permitEnd(this.#needs.context.world.clock.wallMs()));
  }

  #facts(): Facts {
    const { context } = this.#needs;
    return {
      ...{ name: context.id, routes: [context.address], roles: ["orchestrator" as const], numerics: [], region: "" },
      ...{ cores: 0, memoryBytes: 0, gflops: 0, load: 0 },
    };
  }

  /** Other orchestrators of the store, and machines that it knows. */
  #contacts(): string[] {
    const { context, presence } = this.#needs;
    const pnodes = context.mirror
      .under(prefix.pnodes)
      .flatMap(({ id, routes, status }) => (routes && status !== "left" ? [withKey(routes, id as PNodeId)] : []));
    return [...presence.others().map(({ address }) => address), ...pnodes.slice(0, contactsMax)];
  }
}
