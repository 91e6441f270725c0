// A stage for tests of the control plane: production orchestrators on virtual time, and PNodes that do what the
// protocol asks of them except compute. Their states are names, so thousands of them cost next to nothing.

import { addressOf } from "../../simulation/boot.ts";
import { storeData } from "../../simulation/maintainer.ts";
import { scenarios } from "../../simulation/scenarios.ts";
import { SimulatedBlobs } from "../../simulation/world/blobs.ts";
import { Fabric, type SimulatedNetwork } from "../../simulation/world/network.ts";
import { networkKey } from "../../simulation/world/network-key.ts";
import { SimulatedStore } from "../../simulation/world/store.ts";
import { Wire } from "../../simulation/world/wire.ts";
import { type Host, SimulatedWorld } from "../../simulation/world/world.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { sleep } from "../../src/core/world.ts";
import { manifestText } from "../../src/data/manifest.ts";
import {
  type Orchestrator,
  type OrchestratorDependencies,
  startOrchestrator,
} from "../../src/orchestrator/orchestrator.ts";
import type { PNodeRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import type { Timings } from "../../src/orchestrator/timings.ts";
import { DatasetService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { RequestInit, ResponseOf, UnaryMethod } from "../../src/protocol/network.ts";
import type { Rules } from "../../src/scheduler/jobs.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import { type ActingOptions, ActingPNode } from "./acting-pnode.ts";

export class Stage {
  readonly world: SimulatedWorld;
  readonly fabric: Fabric;
  readonly store: SimulatedStore;
  readonly blobs: SimulatedBlobs;
  readonly orchestrators = new Map<string, Orchestrator>();
  readonly #client: Host;
  readonly network: SimulatedNetwork;
  writes = 0;

  /** What orchestrators get in the place of the store, where a test breaks it. */
  readonly #storeOf: (view: StateStore) => StateStore;

  constructor(seed = 1, storeOf: (view: StateStore) => StateStore = (view) => view) {
    this.#storeOf = storeOf;
    this.world = new SimulatedWorld(seed);
    this.fabric = new Fabric(new Wire(this.world, { delayMs: 1 }));
    this.store = new SimulatedStore(this.world);
    this.blobs = new SimulatedBlobs(this.world);
    this.store.onWrite(() => this.writes++);
    this.#client = this.world.start("client");
    this.network = this.fabric.people(this.#client);
  }

  get nowMs(): number {
    return this.world.time.nowMs;
  }

  /** Lets virtual time pass until `finished`, or fails with `what`. */
  async until(what: string, finished: () => boolean, limitMs = 60_000): Promise<void> {
    const end = await this.world.time.run(finished, this.nowMs + limitMs);
    if (end !== "finished") throw new Error(`after ${limitMs} ms of virtual time still not: ${what}`);
  }

  async pass(ms: number): Promise<void> {
    let over = false;
    // An event of its own: a run that ends at a limit would drop the event that lies beyond it.
    this.world.time.after(ms, () => {
      over = true;
    });
    await this.world.time.run(() => over, Number.POSITIVE_INFINITY);
  }

  /** Drives virtual time until the promise settles. */
  async settled<T>(promise: Promise<T>, limitMs = 60_000): Promise<T> {
    let done = false;
    const mark = () => {
      done = true;
    };
    promise.then(mark, mark);
    await this.until("the promise settles", () => done, limitMs);
    return promise;
  }

  async orchestrator(
    name: string,
    timings: Partial<Timings> = {},
    queueRules: Partial<Rules> = {},
    more: Pick<OrchestratorDependencies, "providers"> = {},
  ): Promise<Orchestrator> {
    const host = this.world.start(name);
    const address = addressOf(name);
    const starting = startOrchestrator(
      { listen: address, id: name, software: "test", timings, queueRules },
      {
        world: host.world,
        network: this.fabric.network(host, networkKey),
        store: this.#storeOf(this.store.view(host)),
        blobs: this.blobs.view(host, () => `http://${address}`),
        ...more,
      },
    );
    const orchestrator = await this.settled(starting);
    this.orchestrators.set(name, orchestrator);
    return orchestrator;
  }

  pnode(name: string, options: Partial<ActingOptions> = {}): ActingPNode {
    const host = this.world.start(name);
    const orchestrators = options.orchestrators ?? Array.from(this.orchestrators.values(), (one) => one.address);
    const network = this.fabric.network(host, options.key as KeyId | undefined);
    return new ActingPNode(host, network, this.blobs, { ...options, orchestrators });
  }

  call<M extends UnaryMethod>(method: M, request: RequestInit<M>, name?: string): Promise<ResponseOf<M>> {
    return this.#call(this.network, method, request, name);
  }

  /** As somebody who shows a key. */
  callAs<M extends UnaryMethod>(key: string, method: M, request: RequestInit<M>): Promise<ResponseOf<M>> {
    return this.#call(this.fabric.network(this.#client, key as KeyId), method, request);
  }

  #call<M extends UnaryMethod>(
    network: SimulatedNetwork,
    method: M,
    request: RequestInit<M>,
    name = this.orchestrators.keys().next().value as string,
  ): Promise<ResponseOf<M>> {
    return this.settled(network.call(addressOf(name), method, request, { timeoutMs: 20_000 }));
  }

  /** A dataset, a network of three VNodes (a, b, c) and a session of it; returns the session's id. */
  async session(settings: Record<string, unknown> = {}, name?: string, start = true): Promise<string> {
    const scenario = scenarios[0] as (typeof scenarios)[number];
    const manifest = await storeData(scenario.data, this.blobs);
    await this.call(DatasetService.method.createDataset, { name: "data", manifest: manifestText(manifest) }, name);
    await this.call(NetworkService.method.createNetwork, { definition: scenario.definition }, name);
    const { session } = await this.call(
      SessionService.method.createSession,
      {
        start,
        settings: {
          network: "chain",
          dataset: "data",
          split: "all",
          steps: 20n,
          batch: 4,
          microbatches: 2,
          numerics: "reference",
          checkpointEvery: 2,
          ...settings,
        },
      },
      name,
    );
    return session?.id as string;
  }

  async record<T>(key: string): Promise<T | undefined> {
    const item = await this.store.inner.get(key);
    return item && (JSON.parse(item.value) as T);
  }

  async vnodes(session: string): Promise<VNodeRecord[]> {
    const { items } = await this.store.inner.list(`vnode/${session}/`);
    return items.map((item) => JSON.parse(item.value) as VNodeRecord);
  }

  sessionRecord(session: string): Promise<SessionRecord | undefined> {
    return this.record<SessionRecord>(`session/${session}`);
  }

  pnodeRecord(pnode: string): Promise<PNodeRecord | undefined> {
    return this.record<PNodeRecord>(`pnode/${pnode}`);
  }

  /** Waits in virtual time until a record is as wanted. */
  async untilRecord<T>(what: string, key: string, wanted: (record: T) => boolean, limitMs = 60_000): Promise<T> {
    let found: T | undefined;
    const look = async () => {
      for (;;) {
        const record = await this.record<T>(key);
        if (record && wanted(record)) {
          found = record;
          return;
        }
        await sleep(this.#client.world.timers, 20);
      }
    };
    void look();
    await this.until(what, () => found !== undefined, limitMs);
    return found as T;
  }

  async stop(): Promise<void> {
    for (const orchestrator of this.orchestrators.values()) await this.settled(orchestrator.stop()).catch(() => {});
  }
}
