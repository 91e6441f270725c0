// Every method of the contract, called over real connections by everybody who should not and by who should. What is
// expected follows from the rule in the proto alone, so a new method is in the matrix from the day it has a rule, and one
// without a rule is closed to all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { storeData } from "../../simulation/maintainer.ts";
import { type Scenario, scenarios } from "../../simulation/scenarios.ts";
import { DcnrError, type ErrorCode } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { keyIdOf } from "../../src/core/keys.ts";
import { sleep } from "../../src/core/world.ts";
import { manifestText } from "../../src/data/manifest.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { type Orchestrator, startOrchestrator } from "../../src/orchestrator/orchestrator.ts";
import { prefix } from "../../src/orchestrator/records/store-keys.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { ApiKeys } from "../../src/orchestrator/rights/keys.ts";
import { storedState } from "../../src/orchestrator/sessions/stored-states.ts";
import type { PNodeOptions } from "../../src/pnode/options.ts";
import { type PNode, startPNode } from "../../src/pnode/pnode.ts";
import { access, Rule, Scope } from "../../src/protocol/gen/dcnr/v1/access_pb.ts";
import { DatasetService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { MembershipService } from "../../src/protocol/gen/dcnr/v1/membership_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import type { RecordDurableRequest } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { RelayService } from "../../src/protocol/gen/dcnr/v1/relay_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import type {
  BidiMethod,
  CallOptions,
  Network,
  RequestInit,
  ServerStreamMethod,
  UnaryMethod,
} from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { routedNetwork } from "../../src/protocol/routes/routed-network.ts";
import { tensorsToo } from "../../src/relay/limits.ts";
import { writeStateManifest } from "../../src/states/manifest.ts";
import type { BlobStore } from "../../src/store/blobs/blob-store.ts";
import { openMemoryBlobs, openMemoryStore } from "../../src/store/memory.ts";
import { newIdentity, type RealIdentity, verifySignature } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { realWorld } from "../../src/system/world.ts";
import { contractServices } from "./contract.ts";

/** Fenced: let in as a member, and found to own nothing of what it speaks of. */
type Verdict = "in" | "fenced" | "unauthenticated" | "permission_denied";

/** What each rule says of a caller: with a machine's key, with an API key, with neither. */
interface CallerKind {
  readonly name: string;
  readonly network: Network;
  /** Standing of the machine's key. */
  readonly machine: "none" | "stranger" | "revoked" | "member" | "former owner" | "owner" | "orchestrator";
  /** What the API key it shows is good for. */
  readonly scopes: readonly Scope[];
  /** It shows a key that is not good, whatever its scopes were. */
  readonly badKey?: boolean;
}

const scopeNames = {
  [Scope.GENERATE]: "generate",
  [Scope.READ]: "read",
  [Scope.TRAIN]: "train",
  [Scope.ADMIN]: "admin",
};
const allScopes = [Scope.GENERATE, Scope.READ, Scope.TRAIN, Scope.ADMIN] as const;
/** A key for this is good for those. */
const covered: Readonly<Record<number, readonly Scope[]>> = {
  [Scope.GENERATE]: [Scope.GENERATE],
  [Scope.READ]: [Scope.READ],
  [Scope.TRAIN]: [Scope.TRAIN, Scope.READ],
  [Scope.ADMIN]: allScopes,
};

const world = realWorld({ logFormat: "none" });
const networkKey = newIdentity();
const signatures = { verify: verifySignature, idOf: keyIdOf };
const stage = { opened: [] as Network[], pnodes: [] as PNode[], orchestrator: undefined as Orchestrator | undefined };
let atOrchestrator = "";
let atPNode = "";
let callers: readonly CallerKind[] = [];
let reservationEnd: Promise<string> | undefined;
/** Resolves when the PNode's relay has heard who was sent away: it asks about each of those that wait there every 20 seconds. */
let dismissed: Promise<void> | undefined;
let ownersClaim: Partial<RecordDurableRequest> = {};

/** `punches`: as machines behind routers have it. */
function networkAs(identity?: RealIdentity, key?: string, punches = false): Network {
  const wires = openGrpcNetwork({
    timers: backgroundTimers,
    punches,
    ...(identity && { identity }),
    ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }),
  });
  // They have several routes: one of them relays.
  const network = routedNetwork(wires, world);
  stage.opened.push(network);
  return network;
}

const store = openMemoryStore();

const keys = new ApiKeys(store, world, false);
const wishFor = (scope: Scope) => ({ name: "a key", scopes: [scopeNames[scope as keyof typeof scopeNames]] });

async function apiKey(scope: Scope, lifetimeMs = 0): Promise<string> {
  return (await keys.create({ ...wishFor(scope), lifetimeMs })).secret;
}

async function personWith(scope: Scope, lifetimeMs = 0): Promise<Network> {
  const identity = newIdentity();
  await keys.admit(identity.id, { ...wishFor(scope), lifetimeMs });
  return networkAs(identity);
}

async function startLent(identity: RealIdentity, more: Partial<PNodeOptions> = {}): Promise<PNode> {
  const inner = openInlineExecutor(openReferenceEngine());
  // It computes in this thread, which has calls to answer.
  const executor: typeof inner = {
    ...inner,
    run: async (...run) => {
      await sleep(world.timers, 5);
      return inner.run(...run);
    },
  };
  const numericsClass = await executor.numericsClass();
  const pnode = await startPNode(
    {
      name: identity.id.slice(0, 6),
      software: "test",
      orchestrators: [atOrchestrator],
      listen: "127.0.0.1:0",
      capabilities: {
        cores: 1,
        memoryBytes: 2n << 30n,
        gflops: 1,
        numerics: [{ engine: "reference", class: numericsClass }],
      },
      ...more,
    },
    {
      world,
      network: networkAs(identity, undefined, true),
      membership: { identity, keys: signatures },
      executorFor: async () => executor,
      blobs: {
        upload: async ({ url, headers }, content) => {
          const { ok, status } = await fetch(url, { method: "PUT", headers, body: content.slice() });
          if (!ok) throw new DcnrError("unavailable", `the store answers ${status}`);
        },
        download: async ({ url, headers }, into) => {
          into.set(new Uint8Array(await (await fetch(url, { headers })).arrayBuffer()));
        },
      },
    },
  );
  await pnode.calledBack;
  return pnode;
}

/** Of the same key id, and in no run by chance the same secret. */
function otherThan(secret: string): string {
  return secret.slice(0, -1) + (secret.endsWith("a") ? "b" : "a");
}

/** A session that outlasts the test; its id. */
async function train(network: Network, blobs: BlobStore): Promise<string> {
  const scenario = scenarios[0] as Scenario;
  const manifest = manifestText(await storeData(scenario.data, { inner: blobs }));
  const call = <M extends UnaryMethod>(method: M, request: RequestInit<M>) =>
    network.call(atOrchestrator, method, request);
  await call(DatasetService.method.createDataset, { name: "data", manifest });
  const { network: created } = await call(NetworkService.method.createNetwork, { definition: scenario.definition });
  const { session } = await call(SessionService.method.createSession, {
    start: true,
    settings: {
      ...{ network: created?.id, dataset: "data", split: "all", numerics: "reference", spread: 2 },
      ...{ steps: 1_000_000n, batch: 4, microbatches: 2, checkpointEvery: 1_000 },
    },
  });
  return session?.id as string;
}

/** For methods of owners: what only the owner of a VNode may say of it. */
async function durableClaim(blobs: BlobStore, record: VNodeRecord): Promise<Partial<RecordDurableRequest>> {
  const content = writeStateManifest({ metadata: {}, tensors: [], bytes: 0, partBytes: 1, parts: [] });
  const state = sha256(content);
  await blobs.states.put(state, content, content.byteLength);
  const { session, vnode, epoch } = record;
  const stateBytes = BigInt((await storedState(blobs.states, state, (reason) => assert.fail(reason))).bytes);
  return { session, vnode, epoch: BigInt(epoch), step: 999_999n, state, stateBytes };
}

/**
 * Two PNodes with a session that does not end, so that each is a peer of the other; a third that was the second's
 * predecessor; one that never owned anything, and one that was sent away.
 */
before(async () => {
  let url = "";
  const blobs = openMemoryBlobs({ baseUrl: () => url, clock: world.clock });
  stage.orchestrator = await startOrchestrator(
    { listen: "127.0.0.1:0", trustLoopback: false },
    { world, network: networkAs(networkKey), store, blobs, membership: { identity: networkKey, keys: signatures } },
  );
  url = `http://${stage.orchestrator.address}`;
  atOrchestrator = withKey(stage.orchestrator.address, networkKey.id);
  const { mirror } = stage.orchestrator.parts.context;
  const admin = await apiKey(Scope.ADMIN);
  const asAdmin = networkAs(undefined, admin);
  const lend = async (identity: RealIdentity, more: Partial<PNodeOptions> = {}) => {
    stage.pnodes.push(await startLent(identity, more));
    return identity;
  };
  const owned = (session: string, { id }: RealIdentity) =>
    mirror
      .under(prefix.vnodesOf(session))
      .filter(({ members }) => members.some(({ pnode }) => (pnode as string) === id));
  const until = async (holds: () => boolean) => {
    while (!holds()) await sleep(world.timers, 20);
  };
  const drain = ({ id }: RealIdentity) =>
    asAdmin.call(atOrchestrator, MembershipService.method.drainPNode, { pnode: id });

  const target = await lend(newIdentity(), { relay: tensorsToo(0) });
  const former = await lend(newIdentity());
  atPNode = withKey(stage.pnodes[0]?.address as string, target.id);
  const session = await train(asAdmin, blobs);
  await until(() => owned(session, target).length > 0 && owned(session, former).length > 0);
  const owner = await lend(newIdentity());
  await drain(former);
  await until(() => owned(session, former).length === 0 && owned(session, owner).length > 0);
  ownersClaim = await durableClaim(blobs, owned(session, owner)[0] as VNodeRecord);
  const other = await lend(newIdentity());
  await drain(other);
  await until(() => owned(session, other).length === 0 && owned(session, owner).length > 0);
  const revoked = await lend(newIdentity());
  const reservation = networkAs(revoked).open(atOrchestrator, RelayService.method.reserve);
  const reserved = reservation.incoming[Symbol.asyncIterator]();
  assert.ok(!(await reserved.next()).done);
  const sentAway = { pnode: revoked.id, reason: "for the test" };
  await asAdmin.call(atOrchestrator, MembershipService.method.revokePNode, sentAway);
  reservationEnd = reserved.next().then(
    ({ done }) => (done ? "it ended" : "it heard more"),
    () => "it ended",
  );

  const asRevoked = networkAs(revoked);
  dismissed = (async () => {
    const isServed = () =>
      asRevoked.call(atPNode, RelayService.method.locate, {}).then(
        () => true,
        () => false,
      );
    while (await isServed()) await sleep(world.timers, 500);
  })();

  const scoped = await Promise.all(
    allScopes.flatMap((scope) => {
      const of = { machine: "none" as const, scopes: covered[scope] ?? [] };
      return [
        apiKey(scope).then((key) => ({
          ...of,
          name: `an API key for ${scopeNames[scope]}`,
          network: networkAs(undefined, key),
        })),
        personWith(scope).then((network) => ({
          ...{ network, name: `a person's key for ${scopeNames[scope]}`, machine: "stranger" as const },
          scopes: of.scopes,
        })),
      ];
    }),
  );
  const expired = [await apiKey(Scope.ADMIN, 1), await personWith(Scope.ADMIN, 1)] as const;
  const bad = { machine: "none", scopes: [], badKey: true } as const;
  callers = [
    { name: "nobody", network: networkAs(), machine: "none", scopes: [] },
    { name: "a stranger's key", network: networkAs(newIdentity()), machine: "stranger", scopes: [] },
    { name: "another member", network: networkAs(other), machine: "member", scopes: [] },
    { name: "a former owner", network: networkAs(former), machine: "former owner", scopes: [] },
    { name: "a member that was sent away", network: networkAs(revoked), machine: "revoked", scopes: [] },
    { name: "an orchestrator", network: networkAs(networkKey), machine: "orchestrator", scopes: [] },
    ...scoped,
    { ...bad, name: "an API key that has expired", network: networkAs(undefined, expired[0]) },
    { ...bad, name: "a person's key that has expired", network: expired[1], machine: "stranger" },
    { ...bad, name: "an API key with another secret", network: networkAs(undefined, otherThan(admin)) },
    { ...bad, name: "an API key that nobody made", network: networkAs(undefined, "dcnr-000000000000-x") },
    // Last: what it says counts.
    { name: "an owner", network: networkAs(owner), machine: "owner", scopes: [] },
  ];
});

after(async () => {
  for (const pnode of stage.pnodes) await pnode.stop();
  await stage.orchestrator?.stop();
  for (const network of stage.opened) await network.close();
});

/** The PNode here relays for others, as with --relay. */
const everywhere = new Set(["SystemService", "GossipService", "RelayService"]);
const onPNodes = new Set(["ExchangeService", "ServingService", "SessionPeerService", "PunchService", ...everywhere]);
const services = await contractServices();
const byPlace = {
  orchestrator: services.filter(({ name }) => everywhere.has(name) || !onPNodes.has(name)),
  pnode: services.filter(({ name }) => onPNodes.has(name)),
} as const;

test("a machine that is sent away waits at no relay of an orchestrator any more", async () => {
  assert.equal(await reservationEnd, "it ended");
});

test("the matrix has every service that an orchestrator serves", () => {
  const served = stage.orchestrator?.services.map(({ descriptor }) => descriptor.name) ?? [];
  assert.deepEqual(
    served.filter((name) => name !== "Health").sort(),
    byPlace.orchestrator.map(({ name }) => name).sort(),
  );
});

/** Open to all, and what they are told is a proof or not: an empty one is none. */
const selfJudging: ReadonlySet<string> = new Set(["ProveKey"]);

/** Inside of a WebSocket the line is sealed to the key that is called, and shows the caller's. */
const wires = { "": "", ", by a WebSocket": "ws://" } as const;

for (const [by, scheme] of Object.entries(wires))
  for (const [place, services] of Object.entries(byPlace))
    for (const method of services.flatMap(({ methods }) => methods as readonly DescMethod[]))
      test(`${method.parent.name}/${method.name} on a ${place}${by}`, async () => {
        const { rule, scope } = getOption(method, access);
        for (const caller of callers) {
          if (place === "pnode" && caller.machine === "revoked") await dismissed;
          const expected = selfJudging.has(method.name) ? "unauthenticated" : expectedOf(place, rule, scope, caller);
          const address = `${scheme}${place === "pnode" ? atPNode : atOrchestrator}`;
          const found = await verdictOn(caller.network, address, method, expected === "in" ? 300 : 20_000);
          assert.equal(found.verdict, expected, `${caller.name} at ${method.name}: ${found.why}`);
        }
      });

function expectedOf(place: string, rule: Rule, scope: Scope, { machine, scopes, badKey }: CallerKind): Verdict {
  switch (rule) {
    case Rule.OPEN:
      return "in";
    case Rule.KEY:
      if (place === "pnode") return "permission_denied";
      if (scopes.includes(scope)) return "in";
      return badKey || scopes.length === 0 ? "unauthenticated" : "permission_denied";
    case Rule.SELF:
      return machine === "none" ? "unauthenticated" : "in";
    case Rule.MEMBER:
    case Rule.OWNER:
      if (machine === "none") return "unauthenticated";
      if (machine === "owner") return "in";
      if (machine !== "member" && machine !== "former owner") return "permission_denied";
      // PNodes know of each other only what they own.
      if (place === "pnode") return "permission_denied";
      return rule === Rule.OWNER ? "fenced" : "in";
    case Rule.NETWORK:
      if (machine === "none") return "unauthenticated";
      return machine === "stranger" || machine === "revoked" ? "permission_denied" : "in";
    case Rule.ORCHESTRATOR:
      return machine === "orchestrator" ? "in" : "permission_denied";
    default:
      return "permission_denied";
  }
}

/** Past the gate the request, which is empty, may be refused for any other reason. */
async function verdictOn(
  network: Network,
  address: string,
  method: DescMethod,
  quietMs: number,
): Promise<{ readonly verdict: Verdict; readonly why: string }> {
  const ending = new AbortController();
  const options = { signal: ending.signal, timeoutMs: 20_000 };
  try {
    if (getOption(method, access).rule === Rule.OWNER) {
      const verdict = await claimed(network, address, method, options);
      return { verdict, why: "its claim was judged" };
    }
    if (method.methodKind === "unary") await network.call(address, method as UnaryMethod, {}, options);
    else if (method.methodKind === "server_streaming")
      for await (const _ of network.watch(address, method as ServerStreamMethod, {}, options)) break;
    else {
      const channel = network.open(address, method as BidiMethod, options);
      const first = channel.incoming[Symbol.asyncIterator]().next();
      // Nothing is sent: who is let in hears nothing.
      await Promise.race([first, sleep(world.timers, quietMs, ending.signal)]);
      channel.close();
      first.catch(() => {});
    }
    return { verdict: "in", why: "it was answered" };
  } catch (thrown) {
    const { code, message } = DcnrError.from(thrown);
    return { verdict: refusals.has(code) ? (code as Verdict) : "in", why: `${code}, ${message}` };
  } finally {
    ending.abort();
  }
}

/** A whole request in the present owner's words, so that only who says it decides. */
async function claimed(network: Network, address: string, method: DescMethod, options: CallOptions): Promise<Verdict> {
  const answer = await network.call(address, method as UnaryMethod, ownersClaim, options);
  return (answer as unknown as { readonly accepted: boolean }).accepted ? "in" : "fenced";
}

const refusals: ReadonlySet<ErrorCode> = new Set(["unauthenticated", "permission_denied"]);
