// Calls about machines: who is there and hosts what, who may join, who fetches more of them, how available they were.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { KeyId } from "../../core/ids.ts";
import { FleetService, type PNode, type VNode } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import { GossipService, type ListMembersResponse, type MemberView } from "../../protocol/gen/dcnr/v1/gossip_pb.ts";
import { type JoinPolicy, MembershipService } from "../../protocol/gen/dcnr/v1/membership_pb.ts";
import {
  type AddProviderRequestSchema,
  type Provider,
  ProviderService,
} from "../../protocol/gen/dcnr/v1/provider_pb.ts";
import { type PlanCapacityRequestSchema, ReportService } from "../../protocol/gen/dcnr/v1/report_pb.ts";
import { allPages, type Line } from "./line.ts";

export type ProviderInit = Omit<MessageInitShape<typeof AddProviderRequestSchema>, "$typeName">;

/** Clusters answer slowly, and several are asked one after the other. */
const testTimeoutMs = 120_000;

export type PlanInit = Omit<MessageInitShape<typeof PlanCapacityRequestSchema>, "$typeName">;

export const fleetCalls = (line: Line) => ({
  pnodes: (): Promise<PNode[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(FleetService.method.listPNodes, { pageToken });
      return { items: page.pnodes, next: page.nextPageToken };
    }),
  vnodes: (session = ""): Promise<VNode[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(FleetService.method.listVNodes, { session, pageToken });
      return { items: page.vnodes, next: page.nextPageToken };
    }),
  status: () => line.call(FleetService.method.getStatus, {}),
  events: async (afterSequence = 0n, options: { session?: string; kindPrefix?: string } = {}) => {
    const method = FleetService.method.listEvents;
    const { events } = await line.call(method, {
      afterSequence,
      session: options.session ?? "",
      kindPrefix: options.kindPrefix ?? "",
    });
    return events;
  },
  watch: (signal?: AbortSignal) => line.watch(FleetService.method.watchFleet, {}, { signal }),
});

export const memberCalls = (line: Line) => ({
  /** Everybody whom the process at the address knows by gossip; a PNode answers this too. */
  list: async (): Promise<{ members: MemberView[]; answer: Omit<ListMembersResponse, "members"> }> => {
    const method = GossipService.method.listMembers;
    let answer: ListMembersResponse | undefined;
    const members = await allPages(async (pageToken) => {
      answer = await line.call(method, { pageToken });
      return { items: answer.members, next: answer.nextPageToken };
    });
    return { members, answer: answer as ListMembersResponse };
  },
  invite: async (wish: { uses: number; lifetimeSeconds: number; note: string }) => {
    const method = MembershipService.method.createInvite;
    const request = { ...wish, lifetimeSeconds: BigInt(wish.lifetimeSeconds) };
    const made = await line.call(method, request);
    const { token, orchestrators, networkKey, expiresWallMs } = made;
    return { token, orchestrators, key: networkKey as KeyId, expiresWallMs: Number(expiresWallMs) };
  },
  policy: () => line.call(MembershipService.method.getJoinPolicy, {}),
  setPolicy: (policy: JoinPolicy) => line.call(MembershipService.method.setJoinPolicy, { policy }),
  admit: (pnode: string) => line.call(MembershipService.method.admitPNode, { pnode }),
  revoke: (pnode: string, reason = "") => line.call(MembershipService.method.revokePNode, { pnode, reason }),
  drain: (pnode: string, undo = false) => line.call(MembershipService.method.drainPNode, { pnode, undo }),
  forget: (pnode: string) => line.call(MembershipService.method.forgetPNode, { pnode }),
});

export const providerCalls = (line: Line) => ({
  list: async (): Promise<Provider[]> => (await line.call(ProviderService.method.listProviders, {})).providers,
  add: async (provider: ProviderInit): Promise<Provider> => {
    const added = await line.call(ProviderService.method.addProvider, provider);
    return added.provider!;
  },
  /** Looks whether it could start machines; what was found, in sentences. */
  test: (name: string) => line.call(ProviderService.method.testProvider, { name }, { timeoutMs: testTimeoutMs }),
  remove: (name: string) => line.call(ProviderService.method.removeProvider, { name }),
});

export const reportCalls = (line: Line) => ({
  /** Uptime, failures and what they cost, over the last seconds; a week if 0. */
  availability: (request: { lastSeconds?: number; by?: string; objective?: number } = {}) =>
    line.call(ReportService.method.getReport, request),
  /** What more machines of a kind would give. */
  plan: (kind: PlanInit) => line.call(ReportService.method.planCapacity, kind),
});
