// The person in the simulated world: creates dataset, network and session through the public API, trying one
// orchestrator after another until one answers, and goes on with a session that a power cut has stopped.

import { DcnrError, hasCode } from "../src/core/errors.ts";
import { sleep } from "../src/core/world.ts";
import { type BlobSink, buildTensors, buildTokens } from "../src/data/build.ts";
import { type Manifest, manifestText } from "../src/data/manifest.ts";
import { DatasetService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { NetworkService } from "../src/protocol/gen/dcnr/v1/network_pb.ts";
import { type Session, SessionService } from "../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { Network, RequestInit, ResponseOf, UnaryMethod } from "../src/protocol/network.ts";
import {
  type Scenario,
  type ScenarioData,
  samplesOf,
  sessionRate,
  sessionSeed,
  tokensOf,
  validationMicrobatches,
} from "./scenarios.ts";
import type { Host } from "./world.ts";

export interface SessionPolicy {
  readonly checkpointEvery: number;
  readonly replicas: number;
}

export class Maintainer {
  readonly #host: Host;
  readonly #network: Network;
  readonly #addresses: readonly string[];

  constructor(host: Host, network: Network, addresses: readonly string[]) {
    this.#host = host;
    this.#network = network;
    this.#addresses = addresses;
  }

  /** Everything up to a running session; returns its id. */
  async train(scenario: Scenario, manifest: Manifest, policy: SessionPolicy): Promise<string> {
    await this.#created(DatasetService.method.createDataset, { name: scenario.name, manifest: manifestText(manifest) });
    await this.#created(NetworkService.method.createNetwork, {
      definition: scenario.definition,
      id: scenario.name,
      idempotencyKey: "network",
    });
    const { session } = await this.#call(SessionService.method.createSession, {
      start: true,
      idempotencyKey: "session",
      settings: settingsOf(scenario, policy),
    });
    return (session as Session).id;
  }

  /** Looks now and then, and starts again what was suspended. */
  async watch(id: string, isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      await sleep(this.#host.world.timers, 2_000);
      const { session } = await this.#call(SessionService.method.getSession, { id });
      if (session?.status === "suspended") await this.#call(SessionService.method.startSession, { id });
    }
  }

  /** A call whose effect may be there already, since an earlier reply may have been lost. */
  async #created<M extends UnaryMethod>(method: M, request: RequestInit<M>): Promise<void> {
    try {
      await this.#call(method, request);
    } catch (error) {
      if (!hasCode(error, "already_exists")) throw error;
    }
  }

  async #call<M extends UnaryMethod>(method: M, request: RequestInit<M>): Promise<ResponseOf<M>> {
    const { chance, timers } = this.#host.world;
    for (let attempt = Math.floor(chance.uniform() * this.#addresses.length); ; attempt++) {
      const address = this.#addresses[attempt % this.#addresses.length] as string;
      try {
        return await this.#network.call(address, method, request, { timeoutMs: 5_000 });
      } catch (error) {
        if (!isPassing(error)) throw error;
        await sleep(timers, 200 + 300 * chance.uniform());
      }
    }
  }
}

function isPassing(error: unknown): boolean {
  return ["unavailable", "deadline_exceeded", "aborted", "data_loss"].includes(DcnrError.from(error).code);
}

function settingsOf(scenario: Scenario, policy: SessionPolicy) {
  return {
    network: scenario.name,
    dataset: scenario.name,
    split: "all",
    validationSplit: scenario.validateEvery > 0 ? "all" : "",
    steps: BigInt(scenario.steps),
    batch: scenario.batch,
    microbatches: scenario.microbatches,
    seed: BigInt(sessionSeed),
    numerics: "reference",
    checkpointEvery: policy.checkpointEvery,
    replicas: policy.replicas,
    validateEvery: scenario.validateEvery,
    validationMicrobatches,
    clipNorm: scenario.clipNorm,
    learningRate: { ...sessionRate, warmupSteps: BigInt(sessionRate.warmupSteps) },
  };
}

/** Puts a scenario's data where it will be fetched from. Part of the world, so no fault touches it. */
export async function storeData(
  data: ScenarioData,
  { inner }: { readonly inner: { readonly datasets: BlobSink } },
): Promise<Manifest> {
  if (data.kind === "tokens") {
    const builder = buildTokens(data.vocabulary, { blobs: inner.datasets, shardBytes: 64 });
    await builder.add(tokensOf(data));
    return builder.finish();
  }
  const builder = buildTensors(data.fields, { blobs: inner.datasets, shardBytes: 128 });
  await builder.add(samplesOf(data));
  return builder.finish();
}
