// A small network for attackers to try themselves on: an orchestrator and honest PNodes in this process, on real
// connections with real keys, that train for as long as a test lasts. Nobody is trusted for being on this machine.

import assert from "node:assert/strict";
import { storeData } from "../../simulation/maintainer.ts";
import { type Scenario, scenarios } from "../../simulation/scenarios.ts";
import type { Aside } from "../../src/core/aside.ts";
import { bits } from "../../src/core/bits.ts";
import { DcnrError, type ErrorCode, messageOf } from "../../src/core/errors.ts";
import type { PNodeId, Sha256 } from "../../src/core/ids.ts";
import { verifySignature } from "../../src/core/keys.ts";
import { sleep, type World } from "../../src/core/world.ts";
import { manifestText } from "../../src/data/manifest.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { type Orchestrator, startOrchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { ApiKeys } from "../../src/orchestrator/rights/keys.ts";
import { type PNode, startPNode } from "../../src/pnode/pnode.ts";
import { DatasetService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { type AttachResponse, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import type { HttpHandler, Network, RequestInit, UnaryMethod } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { openMemoryBlobs, openMemoryStore } from "../../src/store/memory.ts";
import { newIdentity, type RealIdentity } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { realWorld } from "../../src/system/world.ts";

export type Scope = "generate" | "read" | "train" | "admin";

export interface LabOptions {
  readonly pnodes?: number;
  readonly world?: World;
  readonly aside?: Aside;
  readonly http?: HttpHandler;
}

export class Lab {
  readonly world: World;
  readonly store = openMemoryStore();
  readonly blobs: ReturnType<typeof openMemoryBlobs>;
  /** Keys of the honest PNodes: whoever holds one has broken into that machine. */
  readonly keys: RealIdentity[] = [];
  readonly pnodes: PNode[] = [];
  /** What the honest PNodes have fetched. */
  readonly caches: Map<Sha256, Uint8Array>[] = [];
  readonly networkKey = newIdentity();
  readonly #opened: Network[] = [];
  #url = "";
  #orchestrator: Orchestrator | undefined;

  private constructor(world: World) {
    this.world = world;
    this.blobs = openMemoryBlobs({ baseUrl: () => this.#url, clock: world.clock, key: world.chance.bytes(32) });
  }

  static async open(options: LabOptions = {}): Promise<Lab> {
    const lab = new Lab(options.world ?? realWorld({ logFormat: "none" }));
    const { world, store, blobs } = lab;
    lab.#orchestrator = await startOrchestrator(
      { listen: "127.0.0.1:0", trustLoopback: false, ...(options.http && { http: options.http }) },
      {
        ...{ world, store, blobs, network: lab.as(lab.networkKey), identity: lab.networkKey },
        ...(options.aside && { aside: options.aside }),
      },
    );
    lab.#url = `http://${lab.#orchestrator.address}`;
    for (let i = 0; i < (options.pnodes ?? 0); i++) await lab.#lend();
    return lab;
  }

  get orchestrator(): Orchestrator {
    return this.#orchestrator as Orchestrator;
  }

  /** With the network's key. */
  get address(): string {
    return withKey(this.orchestrator.address, this.networkKey.id);
  }

  pnodeAt(index: number): string {
    return withKey((this.pnodes[index] as PNode).address, (this.keys[index] as RealIdentity).id);
  }

  /** Calls as the holder of a key, or as nobody. */
  as(identity?: RealIdentity, apiKey?: string): Network {
    const network = openGrpcNetwork({
      timers: backgroundTimers,
      ...(identity && { identity }),
      ...(apiKey !== undefined && { headers: { authorization: `Bearer ${apiKey}` } }),
    });
    this.#opened.push(network);
    return network;
  }

  async apiKey(scope: Scope): Promise<string> {
    return (await new ApiKeys(this.store, this.world, false).create({ name: "a key", scopes: [scope] })).secret;
  }

  async person(scope: Scope): Promise<Network> {
    return this.as(undefined, await this.apiKey(scope));
  }

  call<M extends UnaryMethod>(network: Network, method: M, request: RequestInit<M>) {
    // However busy the machine is: what is tried here is never how fast something comes.
    return network.call(this.address, method, request, { timeoutMs: 180_000 });
  }

  async #lend(): Promise<void> {
    const identity = newIdentity();
    const cache = new Map<Sha256, Uint8Array>();
    const executor = openInlineExecutor(openReferenceEngine());
    const numerics = [{ engine: "reference", class: await executor.numericsClass() }];
    const pnode = await startPNode(
      {
        name: `honest-${this.pnodes.length}`,
        software: "test",
        orchestrators: [this.address],
        listen: "127.0.0.1:0",
        capabilities: { cores: 1, memoryBytes: 2n << 30n, gflops: 1, numerics },
      },
      {
        world: this.world,
        network: this.as(identity),
        executorFor: async () => executor,
        verify: verifySignature,
        cache: { get: async (hash) => cache.get(hash), put: async (hash, content) => void cache.set(hash, content) },
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
    this.keys.push(identity);
    this.caches.push(cache);
    this.pnodes.push(pnode);
  }

  /** A session on all honest PNodes that outlasts the test; resolves once it has a recovery line. */
  async train(more: { readonly autonomy?: string } = {}): Promise<string> {
    const id = await this.createSession(1_000_000n, more);
    await this.until("the session has a line", () => this.session(id).line > 0);
    return id;
  }

  /** Sessions of different lengths are different sessions. */
  async createSession(steps: bigint, more: { readonly autonomy?: string } = {}): Promise<string> {
    const person = await this.person("admin");
    const scenario = scenarios[0] as Scenario;
    const manifest = manifestText(await storeData(scenario.data, { inner: this.blobs }));
    await this.call(person, DatasetService.method.createDataset, { name: "data", manifest });
    const { network } = await this.call(person, NetworkService.method.createNetwork, {
      definition: scenario.definition,
    });
    const { session } = await this.call(person, SessionService.method.createSession, {
      start: true,
      settings: {
        ...{ network: network?.id, dataset: "data", split: "all", numerics: "reference", spread: this.pnodes.length },
        ...{ steps, batch: 4, microbatches: 2, checkpointEvery: 5 },
        ...more,
      },
    });
    return session?.id as string;
  }

  session(id: string): SessionRecord {
    return this.orchestrator.parts.context.mirror.get(key.session(id)) as SessionRecord;
  }

  vnodes(session: string): VNodeRecord[] {
    const { mirror } = this.orchestrator.parts.context;
    return this.session(session).vnodes.map((vnode) => mirror.get(key.vnode(session, vnode)) as VNodeRecord);
  }

  /** A VNode that the PNode with this index hosts. */
  vnodeOn(session: string, index: number): VNodeRecord {
    const id = this.keys[index]?.id as string as PNodeId;
    return this.vnodes(session).find(({ members }) => members[0]?.pnode === id) as VNodeRecord;
  }

  /** The session still runs, on the same machines, and gets on; nobody was blamed, and every blob of the data is there. */
  async nothingLost(session: string, before: readonly VNodeRecord[]): Promise<void> {
    const { line } = this.session(session);
    await this.until("the session gets on", () => this.session(session).line > line);
    assert.equal(this.session(session).status, "running");
    const owners = (records: readonly VNodeRecord[]) =>
      records.map(({ vnode, epoch, members }) => ({ vnode, epoch, owner: members[0]?.pnode }));
    assert.deepEqual(owners(this.vnodes(session)), owners(before));
    for (const { failures } of this.vnodes(session)) assert.deepEqual(failures, []);
    const events = this.orchestrator.parts.context.events.list({ session });
    assert.deepEqual(
      events.filter(({ level }) => level === "error"),
      [],
    );
  }

  /** Registers a machine of the attacker's, as everybody may on an open network; what it is told goes to `onTold`. */
  async join(identity: RealIdentity, onTold: (message: AttachResponse) => void = () => {}, boast = 1) {
    const network = this.as(identity);
    const channel = network.open(this.address, PNodeService.method.attach);
    const numerics = [{ engine: "reference", class: "reference" }];
    await channel.send({
      event: {
        case: "register",
        value: {
          ...{ protocolMajor: 1, bits, name: "mallory", incarnation: "1", routes: ["127.0.0.1:9"] },
          capabilities: { cores: boast, memoryBytes: 1n << 40n, gflops: boast, numerics },
        },
      },
    });
    const registered = Promise.withResolvers<void>();
    const listen = async () => {
      for await (const message of channel.incoming) {
        if (message.event.case === "registered") registered.resolve();
        onTold(message);
      }
    };
    listen().catch((thrown: unknown) => registered.reject(thrown));
    await registered.promise;
    return { network, channel };
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    for (const startMs = this.world.clock.monotonicMs(); !holds(); ) {
      assert.ok(this.world.clock.monotonicMs() < startMs + 120_000, `waited in vain: ${what}`);
      await sleep(this.world.timers, 20);
    }
  }

  async close(): Promise<void> {
    for (const pnode of this.pnodes) await pnode.stop();
    await this.#orchestrator?.stop();
    for (const network of this.#opened) await network.close();
  }
}

/** The attempt fails with this code, and says why. */
export async function refused(attempt: Promise<unknown>, code: ErrorCode, why = /./): Promise<void> {
  const outcome = await attempt.then(
    () => assert.fail("it was let through"),
    (thrown: unknown) => DcnrError.from(thrown),
  );
  assert.equal(outcome.code, code, outcome.message);
  assert.match(messageOf(outcome), why);
}
