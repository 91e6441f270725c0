// What the contract's roles (access.proto) mean at a PNode: peers are PNodes that own something of a session that is at home
// here, as orchestrators say; orchestrators are those who show the network's key. Nobody else has anything to ask of it.

import { DcnrError, fail, hasCode } from "../core/errors.ts";
import type { Clock } from "../core/world.ts";
import { VouchingService } from "../protocol/gen/dcnr/v1/relay_pb.ts";
import type { Gate } from "../protocol/network.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Resolver } from "./resolver.ts";

/** For whom a PNode relays, if it does: what orchestrators say of a machine holds for so long. */
const vouchedMs = 60_000;
const vouchedMax = 10_000;
/** Strangers cost orchestrators a question each, not one each time that they knock. */
const deniedMs = 5_000;
const askedAtOnce = 16;
const vouchAttempts = 3;

/** What the network's key has signed about others: good while no orchestrator can be asked. */
export interface Signed {
  /** A charter names the PNode beside this one. */
  readonly isCrew: (pnode: string) => boolean;
  /** It is here as gossip knows it, under a permit. */
  readonly isPermitted: (pnode: string) => boolean;
}

const nothingSigned: Signed = { isCrew: () => false, isPermitted: () => false };

export function pnodeGate(
  resolver: Resolver,
  orchestrators: Orchestrators,
  clock: Clock,
  signal: AbortSignal,
  { isCrew, isPermitted }: Signed = nothingSigned,
): Gate {
  const vouched = new Map<string, number>();
  const denied = new Map<string, number>();
  let asking = 0;
  const vouchFor = async (id: string) => {
    if (asking >= askedAtOnce)
      throw new DcnrError("resource_exhausted", "too many machines ask to be let in: try again", {
        outlook: "passing",
      });
    asking += 1;
    try {
      const { member } = await orchestrators.call(VouchingService.method.vouch, { pnode: id }, signal, vouchAttempts);
      return member;
    } catch (error) {
      const isNobodyThere = hasCode(error, "unavailable") || hasCode(error, "deadline_exceeded");
      if (isNobodyThere && (isCrew(id) || isPermitted(id))) return true;
      throw error;
    } finally {
      asking -= 1;
    }
  };
  const foreign = (id: string) =>
    fail("permission_denied", `PNode ${id} is not of this network: nothing is relayed for it`);
  return {
    network: async (caller) => {
      const { id } = caller;
      const { networkKey } = orchestrators;
      if (id === undefined) fail("unauthenticated", "a relay is for machines that show a key");
      if (networkKey !== undefined && orchestrators.isKnownBy(networkKey, caller)) return;
      if (!orchestrators.isKnownBy(id, caller))
        fail("permission_denied", `the key of PNode ${id} was replaced by a newer one: use that`);
      if (clock.monotonicMs() < (vouched.get(id) ?? 0)) return;
      if (clock.monotonicMs() < (denied.get(id) ?? 0)) foreign(id);
      if (!(await vouchFor(id))) {
        if (denied.size >= vouchedMax) denied.clear();
        denied.set(id, clock.monotonicMs() + deniedMs);
        foreign(id);
      }
      if (vouched.size >= vouchedMax) vouched.clear();
      vouched.set(id, clock.monotonicMs() + vouchedMs);
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
