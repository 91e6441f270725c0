// What a member answers to others. Who calls is told by its key; what it may say follows from the record and the permit that
// belong to that key. Strangers learn where orchestrators are, and nothing else is done for them.

import { fail } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import { GossipService, type SignedRecord, type SyncRequest } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import { type Caller, type Network, type ServedService, service } from "../protocol/network.ts";
import { withKey } from "../protocol/routes/address.ts";
import { isRelayed, joinRoutes } from "../protocol/routes/routes.ts";
import { isHere, type Known, type Member, type MemberId, type News } from "./member.ts";
import { formerToWire, type NetworkKey, type Shown, shownFromWire } from "./network-key.ts";
import { type PermitFacts, permitSeconds, recordOf } from "./records.ts";
import type { Gossip } from "./swim.ts";
import { answerSync } from "./sync.ts";
import { answerToWire, newsToWire, type Reader, standingToWire, syncFromWire } from "./wire.ts";

/** A member that takes part, as its service needs it. */
export interface Taking {
  readonly gossip: Gossip;
  readonly reader: Reader;
  readonly networkKey: NetworkKey;
}

export interface ServiceNeeds {
  readonly world: World;
  readonly network: Network;
  readonly role: "pnode" | "orchestrator";
  /** Undefined while it does not take part yet. */
  taking(): Taking | undefined;
  hear(from: MemberId, news: readonly News[]): void;
  /** Somebody remembers what this machine said of itself. */
  reminded(record: SignedRecord, network: Shown): void;
  /** At orchestrators: a permit for somebody who may have one. */
  permit?: ((id: MemberId) => Promise<PermitFacts | undefined>) | undefined;
}

/** Tries for others at once, and how long one may last. */
const triesMax = 64;
const tryTimeoutMsMax = 10_000;
const callBackMs = 2_000;
const orchestratorsMax = 16;
const pageSizeMax = 1_000;

/** Of a machine that is asked as a member and takes no part: it may have forgotten that it is one. */
export const forgottenCode = "failed_precondition";

export function gossipService(needs: ServiceNeeds): ServedService {
  const { world, network, hear } = needs;
  let tries = 0;
  const taking = () => needs.taking() ?? fail("unavailable", "this machine does not take part in the network yet");
  /** Whoever calls knows this machine as a member, and can remind it. */
  const known = () =>
    needs.taking() ??
    fail(forgottenCode, "this machine has no permit to take part: it was never let in, or has lost its disk");
  const probe = async ({ member }: Pick<Known, "member">, timeoutMs: number) => {
    const { gossip, reader } = taking();
    const news = gossip.newsFor(member.id);
    const request = { from: fromOf(gossip.self), news: newsToWire(news) };
    const response = await network.call(routeTo(member), GossipService.method.probe, request, { timeoutMs });
    hear(member.id, await reader.news(response.news));
  };
  return service(GossipService, {
    probe: async ({ from: named, news }, { caller }) => {
      const from = named || (caller.id ?? "");
      const { gossip, reader } = known();
      if (knownCaller(gossip, from, caller) === undefined) return { from: gossip.self.id, news: [], stranger: true };
      hear(from, await reader.news(news));
      return { from: gossip.self.id, news: newsToWire(gossip.newsFor(from)), stranger: false };
    },
    probeVia: async ({ from: named, target, timeoutMs, news }, { caller }) => {
      const from = named || (caller.id ?? "");
      const { gossip, reader } = taking();
      if (knownCaller(gossip, from, caller) === undefined) return stranger();
      hear(from, await reader.news(news));
      const known = gossip.roster.get(target);
      if (known === undefined || known.member.routes.length === 0) return { reached: false, news: [] };
      if (tries >= triesMax) fail("resource_exhausted", "too many tries for others are under way");
      tries += 1;
      try {
        await probe(known, Math.min(timeoutMs, tryTimeoutMsMax));
        return { reached: true, news: newsToWire(gossip.newsFor(from)) };
      } catch {
        return { reached: false, news: newsToWire(gossip.newsFor(from)) };
      } finally {
        tries -= 1;
      }
    },
    sync: async (request, { caller }) => {
      const { gossip, reader, networkKey } = known();
      const ask = syncFromWire(request);
      const self = introduced(request, reader, caller);
      const news = await reader.news(request.news);
      hear(self.id, [{ kind: "record", member: self }, ...news]);
      const answer = answerSync(gossip.roster, gossip.self, { ...ask, news });
      const reached = request.callBack && (await isReached(() => probe({ member: self }, callBackMs)));
      const fresh = await renewed(self, world.clock.wallMs(), needs.permit);
      // What it is accused of here it should hear at once.
      const own = gossip.newsFor(self.id);
      const wire = answerToWire({ ...answer, news: [...own, ...answer.news] });
      return { ...wire, reached, ...(fresh && { permit: permitToWire(fresh), ...networkToWire(networkKey) }) };
    },
    remind: async ({ record, networkPublicKey, networkFormer }) => {
      needs.reminded(
        record ?? fail("invalid_argument", "there is no record"),
        shownFromWire(networkPublicKey, networkFormer),
      );
      return {};
    },
    introduce: async () => {
      const { gossip, networkKey } = taking();
      const { self, roster } = gossip;
      const known = [...roster.orchestrators].flatMap((id) => roster.get(id)?.member ?? []);
      const all = self.roles.includes("orchestrator") ? [self, ...known] : known;
      const orchestrators = all.slice(0, orchestratorsMax).map(({ signed }) => signed);
      return { ...networkToWire(networkKey), orchestrators, from: self.id };
    },
    listMembers: async ({ pageSize, pageToken }) => {
      const { gossip, networkKey } = taking();
      const { self, roster } = gossip;
      const nowMs = world.clock.monotonicMs();
      const all: Known[] = [{ member: self, standing: "alive", sinceMs: nowMs }, ...roster.all()];
      const later = all.filter(({ member }) => member.id > pageToken).sort(byId);
      const page = later.slice(0, Math.min(pageSize || pageSizeMax, pageSizeMax));
      return {
        members: page.map(({ member, standing, sinceMs }) => ({
          record: recordOf(member),
          standing: standingToWire(standing),
          standingMs: BigInt(Math.max(0, Math.round(nowMs - sinceMs))),
        })),
        nextPageToken: page.length < later.length ? (page.at(-1)?.member.id ?? "") : "",
        from: self.id,
        role: needs.role,
        hasOrchestrator: needs.role === "orchestrator" || roster.orchestrators.size > 0,
        alive: roster.here + 1,
        dead: roster.dead.size,
        networkKey: networkKey.keys.at(-1) as KeyId,
      };
    },
  });
}

/** How a member names itself in a call: a PNode's key has said it already. */
export function fromOf({ id, key }: Member): string {
  return (id as string) === key ? "" : id;
}

/** The routes that a member is called by, where its newest key must answer, or an heir of it. */
export function routeTo({ routes, keys }: Member): string {
  if (routes.length === 0) fail("unavailable", "nobody can call this member");
  return withKey(joinRoutes(routes), keys.at(-1) as KeyId);
}

export function relaysAmong(known: readonly Known[]): { readonly address: string; readonly name: string }[] {
  return known.flatMap(({ member: { roles, routes, keys, name }, standing }) => {
    const route = roles.includes("relay") && isHere(standing) ? routes.find((one) => !isRelayed(one)) : undefined;
    return route === undefined ? [] : [{ address: withKey(route, keys.at(-1) as KeyId), name }];
  });
}

export function networkToWire({ shown: { publicKey, former } }: Pick<NetworkKey, "shown">) {
  return { networkPublicKey: Uint8Array.from(publicKey), networkFormer: formerToWire(former) };
}

export function permitToWire({ signature, expiresSeconds }: PermitFacts) {
  return { signature: Uint8Array.from(signature), expiresSeconds };
}

function byId(one: Known, other: Known): number {
  return one.member.id < other.member.id ? -1 : one.member.id > other.member.id ? 1 : 0;
}

/** The member that calls: its own key, or the network's for one of its orchestrators. */
function knownCaller({ roster }: Gossip, from: MemberId, caller: Caller): Known | undefined {
  const known = roster.get(from);
  return known === undefined || known.standing === "left" || !speaksFor(caller, known.member) ? undefined : known;
}

/** Orchestrators replace the network's key while their connections go on; machines replace theirs at a standstill. */
function speaksFor({ id, keys }: Caller, member: Member): boolean {
  if (id === undefined || member.key !== id) return false;
  return member.roles.includes("orchestrator") || (keys ?? [id]).includes(member.keys.at(-1) as KeyId);
}

function introduced({ self }: SyncRequest, reader: Reader, caller: Caller): Member {
  const member = self && reader.record(self);
  if (member === undefined)
    fail("failed_precondition", "the caller's record is not one of this network: register first");
  if (!speaksFor(caller, member)) fail("failed_precondition", "the caller shows a record that belongs to another key");
  return member;
}

function stranger(): never {
  return fail("failed_precondition", "the caller is not known here: introduce yourself by Sync");
}

async function isReached(call: () => Promise<void>): Promise<boolean> {
  try {
    await call();
    return true;
  } catch {
    return false;
  }
}

/** For whoever is let in for less than half of the usual time. */
async function renewed(
  { id, permittedUntil }: Member,
  wallMs: number,
  permit: ServiceNeeds["permit"],
): Promise<PermitFacts | undefined> {
  if (permit === undefined || permittedUntil > wallMs / 1_000 + permitSeconds / 2) return undefined;
  return permit(id);
}
