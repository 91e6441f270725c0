// MembershipService: who may lend machines, for those who operate the network. Every change is told as an event, which everybody
// may read: where it came from and for whom, the log of acts says.

import { fail } from "../../core/errors.ts";
import { type KeyId, type PNodeId, parseId } from "../../core/ids.ts";
import { JoinPolicy, MembershipService } from "../../protocol/gen/dcnr/v1/membership_pb.ts";
import { type Caller, type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { forgetPNode } from "../fleet/attached/departed.ts";
import type { Members } from "../fleet/attached/members.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { PolicyRecord } from "../records/machines.ts";
import { pnodeName } from "../records/names.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Controller } from "../workloads/controller.ts";

export interface MembershipApiNeeds {
  readonly context: Context;
  readonly members: Members;
  readonly presence: Presence;
  readonly controller: Controller;
  /** By which new machines should know the network. */
  networkKey(): KeyId | undefined;
}

const policies: Readonly<Record<PolicyRecord["join"], JoinPolicy>> = {
  open: JoinPolicy.OPEN,
  invited: JoinPolicy.INVITED,
  listed: JoinPolicy.LISTED,
};

export function membershipService(needs: MembershipApiNeeds): ServedService {
  const { context, members, presence, controller, networkKey } = needs;
  const { mirror, events } = context;
  const tell = (kind: string, message: string, { id }: Caller, pnode?: PNodeId) =>
    events.emit("info", `admin.${kind}`, `${message} (by ${id ?? "a caller"})`, pnode ? { pnode } : {});
  const pnodeOf = (text: string) => parseId<PNodeId>(text, "the PNode's id");
  return service(MembershipService, {
    createInvite: async ({ uses, lifetimeSeconds, note }, { caller }) => {
      const { token, expiresWallMs } = await members.invite(uses, Number(lifetimeSeconds) * 1_000, note);
      tell("invite", `an invite for ${uses || 1} machine(s) was made`, caller);
      const orchestrators = presence.addresses();
      return { token, networkKey: networkKey() ?? "", orchestrators, expiresWallMs: BigInt(Math.round(expiresWallMs)) };
    },
    getJoinPolicy: async () => ({ policy: policies[members.policy] }),
    setJoinPolicy: async ({ policy }, { caller }) => {
      const join = (Object.keys(policies) as PolicyRecord["join"][]).find((one) => policies[one] === policy);
      if (join === undefined) fail("invalid_argument", "choose a policy: open, invited or listed");
      await members.setPolicy(join);
      tell("policy", `machines may join: ${join}`, caller);
      return {};
    },
    admitPNode: async ({ pnode: text }, { caller }) => {
      const pnode = pnodeOf(text);
      await members.admit(pnode);
      tell("admit", `PNode ${pnodeName(mirror, pnode)} is admitted`, caller, pnode);
      return {};
    },
    revokePNode: async ({ pnode: text, reason }, { caller }) => {
      const pnode = pnodeOf(text);
      await members.revoke(pnode, reason);
      const why = reason ? `: ${reason.slice(0, 200)}` : "";
      tell("revoke", `PNode ${pnodeName(mirror, pnode)} is sent away${why}`, caller, pnode);
      controller.fleetChanged(pnode, true);
      return {};
    },
    drainPNode: async ({ pnode: text, undo }, { caller }) => {
      const pnode = pnodeOf(text);
      const { record } = await mirror.update(key.pnode(pnode), (current) => {
        if (current === undefined || (current.drained ?? false) === !undo) return undefined;
        const { drained: _, ...rest } = current;
        return undo ? rest : { ...rest, drained: true };
      });
      if (record === undefined) fail("not_found", `there is no PNode ${pnode}: see dcnr nodes`);
      tell(
        "drain",
        `PNode ${record.name} ${undo ? "may get work again" : "gets no more work, what it hosts goes elsewhere"}`,
        caller,
        pnode,
      );
      controller.fleetChanged(pnode, true);
      return {};
    },
    forgetPNode: async ({ pnode: text }, { caller }) => {
      const pnode = pnodeOf(text);
      const name = pnodeName(mirror, pnode);
      const record = await mirror.read(key.pnode(pnode));
      if (record === undefined) fail("not_found", `there is no PNode ${pnode}: see dcnr nodes`);
      if (record.status !== "lost" && record.status !== "left")
        fail("failed_precondition", `PNode ${name} is ${record.status}: only machines that are gone are forgotten`);
      if (mirror.under(prefix.vnodes).some(({ members: owners }) => owners.some((one) => one.pnode === pnode)))
        fail("failed_precondition", `PNode ${name} still owns VNodes that wait for a place: try again later`);
      await forgetPNode(context, record);
      tell("forget", `PNode ${name} is forgotten`, caller, pnode);
      return {};
    },
  });
}
