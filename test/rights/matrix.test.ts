// Every method of the contract, called over real connections by everybody who should not and by who should. What is
// expected follows from the rule in the proto alone, so a new method is in the matrix from the day it has a rule, and one
// without a rule is closed to all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { storeData } from "../../simulation/maintainer.ts";
import { type Scenario, scenarios } from "../../simulation/scenarios.ts";
import { DcnrError, type ErrorCode } from "../../src/core/errors.ts";
import type { PNodeId } from "../../src/core/ids.ts";
import { sleep } from "../../src/core/world.ts";
import { manifestText } from "../../src/data/manifest.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { type Orchestrator, startOrchestrator } from "../../src/orchestrator/orchestrator.ts";
import { ApiKeys } from "../../src/orchestrator/serving/keys.ts";
import { type PNode, startPNode } from "../../src/pnode/pnode.ts";
import { withKey } from "../../src/protocol/address.ts";
import { access, Rule, Scope } from "../../src/protocol/gen/dcnr/v1/access_pb.ts";
import { DatasetService, VocabularyService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import type { BidiMethod, Network, RequestInit, ServerStreamMethod, UnaryMethod } from "../../src/protocol/network.ts";
import type { BlobStore } from "../../src/store/blob-store.ts";
import { openMemoryBlobs, openMemoryStore } from "../../src/store/memory.ts";
import { newIdentity, type RealIdentity } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { realWorld } from "../../src/system/world.ts";

type Verdict = "in" | "unauthenticated" | "permission_denied";

/** What each rule says of a caller: with a machine's key, with an API key, with neither. */
interface CallerKind {
  readonly name: string;
  readonly network: Network;
  /** Standing of the machine's key. */
  readonly machine: "none" | "stranger" | "member" | "orchestrator";
  /** What the API key it shows is good for. */
  readonly scopes: readonly Scope[];
  /** It shows an API key that is not good, whatever its scopes were. */
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
const stage = { opened: [] as Network[], pnodes: [] as PNode[], orchestrator: undefined as Orchestrator | undefined };
let atOrchestrator = "";
let atPNode = "";
let callers: readonly CallerKind[] = [];

function networkAs(identity?: RealIdentity, key?: string): Network {
  const network = openGrpcNetwork({
    timers: backgroundTimers,
    ...(identity && { identity }),
    ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }),
  });
  stage.opened.push(network);
  return network;
}

const store = openMemoryStore();

async function apiKey(scope: Scope): Promise<string> {
  const keys = new ApiKeys(store, world, false);
  return (await keys.create("a key", [scopeNames[scope as keyof typeof scopeNames]], 0)).secret;
}

async function startLent(identity: RealIdentity): Promise<PNode> {
  const executor = openInlineExecutor(openReferenceEngine());
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
    },
    {
      world,
      network: networkAs(identity),
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
  await pnode.attached;
  return pnode;
}

/** A session that outlasts the test. */
async function train(network: Network, blobs: BlobStore): Promise<void> {
  const scenario = scenarios[0] as Scenario;
  const manifest = manifestText(await storeData(scenario.data, { inner: blobs }));
  const call = <M extends UnaryMethod>(method: M, request: RequestInit<M>) =>
    network.call(atOrchestrator, method, request);
  await call(DatasetService.method.createDataset, { name: "data", manifest });
  const { network: created } = await call(NetworkService.method.createNetwork, { definition: scenario.definition });
  await call(SessionService.method.createSession, {
    start: true,
    settings: {
      ...{ network: created?.id, dataset: "data", split: "all", numerics: "reference", spread: 2 },
      ...{ steps: 1_000_000n, batch: 4, microbatches: 2, checkpointEvery: 1_000 },
    },
  });
}

/** Two PNodes with a session that does not end, so that each is a peer of the other. */
before(async () => {
  let url = "";
  const blobs = openMemoryBlobs({ baseUrl: () => url, clock: world.clock });
  stage.orchestrator = await startOrchestrator(
    { listen: "127.0.0.1:0", trustLoopback: false },
    { world, network: networkAs(networkKey), store, blobs },
  );
  url = `http://${stage.orchestrator.address}`;
  atOrchestrator = withKey(stage.orchestrator.address, networkKey.id);
  const keys = [newIdentity(), newIdentity()] as const;
  for (const identity of keys) stage.pnodes.push(await startLent(identity));
  const { parts } = stage.orchestrator;
  atPNode = withKey(stage.pnodes[0]?.address as string, keys[0].id);

  const admin = await apiKey(Scope.ADMIN);
  await train(networkAs(undefined, admin), blobs);
  const isPlaced = () =>
    parts.capacity.workloadsOn(keys[0].id as string as PNodeId).length > 0 &&
    parts.capacity.workloadsOn(keys[1].id as string as PNodeId).length > 0;
  while (!isPlaced()) await sleep(world.timers, 20);

  const scoped = await Promise.all(
    allScopes.map(async (scope) => ({
      name: `an API key for ${scopeNames[scope]}`,
      network: networkAs(undefined, await apiKey(scope)),
      machine: "none" as const,
      scopes: covered[scope] ?? [],
    })),
  );
  callers = [
    { name: "nobody", network: networkAs(), machine: "none", scopes: [] },
    { name: "a stranger's key", network: networkAs(newIdentity()), machine: "stranger", scopes: [] },
    { name: "a member", network: networkAs(keys[1]), machine: "member", scopes: [] },
    { name: "an orchestrator", network: networkAs(networkKey), machine: "orchestrator", scopes: [] },
    ...scoped,
    {
      name: "an API key with another secret",
      network: networkAs(undefined, `${admin.slice(0, -3)}abc`),
      machine: "none",
      scopes: [],
      badKey: true,
    },
    {
      name: "an API key that nobody made",
      network: networkAs(undefined, "dcnr-000000000000-x"),
      machine: "none",
      scopes: [],
      badKey: true,
    },
  ];
});

after(async () => {
  for (const pnode of stage.pnodes) await pnode.stop();
  await stage.orchestrator?.stop();
  for (const network of stage.opened) await network.close();
});

const byPlace = {
  orchestrator: [
    ...[DatasetService, VocabularyService, FleetService, InferenceService, NetworkService],
    ...[PNodeService, SessionService, SystemService],
  ],
  pnode: [ExchangeService, ServingService, SystemService],
} as const;

for (const [place, services] of Object.entries(byPlace))
  for (const method of services.flatMap(({ methods }) => methods as readonly DescMethod[]))
    test(`${method.parent.name}/${method.name} on a ${place}`, async () => {
      const { rule, scope } = getOption(method, access);
      for (const caller of callers) {
        const expected = expectedOf(place, rule, scope, caller);
        const address = place === "pnode" ? atPNode : atOrchestrator;
        const found = await verdictOn(caller.network, address, method, expected === "in" ? 300 : 20_000);
        assert.equal(found, expected, `${caller.name} at ${method.name}`);
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
      return machine === "member" ? "in" : "permission_denied";
    case Rule.ORCHESTRATOR:
      return machine === "orchestrator" ? "in" : "permission_denied";
    default:
      return "permission_denied";
  }
}

/** Past the gate the request, which is empty, may be refused for any other reason. */
async function verdictOn(network: Network, address: string, method: DescMethod, quietMs: number): Promise<Verdict> {
  const ending = new AbortController();
  const options = { signal: ending.signal, timeoutMs: 20_000 };
  try {
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
    return "in";
  } catch (thrown) {
    const { code } = DcnrError.from(thrown);
    return refusals.has(code) ? (code as Verdict) : "in";
  } finally {
    ending.abort();
  }
}

const refusals: ReadonlySet<ErrorCode> = new Set(["unauthenticated", "permission_denied"]);
