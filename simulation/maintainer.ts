// The person in the simulated world: creates dataset, network and session through the public API, trying one
// orchestrator after another until one answers, and goes on with a session that a power cut has stopped.

import { DcnrError, hasCode } from "../src/core/errors.ts";
import type { SessionId } from "../src/core/ids.ts";
import { sleep } from "../src/core/world.ts";
import { type BlobSink, buildTensors, buildTokens } from "../src/data/build.ts";
import { type Manifest, manifestText } from "../src/data/manifest.ts";
import { DatasetService } from "../src/protocol/gen/dcnr/v1/data_pb.ts";
import { InferenceService } from "../src/protocol/gen/dcnr/v1/inference_pb.ts";
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
import type { Host } from "./world/world.ts";

export interface SessionPolicy {
  /** 0: as is usual. */
  readonly checkpointEvery: number;
  readonly replicas: number;
  /** PNodes that share it at least. */
  readonly spread?: number;
  readonly autonomy?: "on" | undefined;
  readonly eras?: "on" | undefined;
  /** Lanes of all classes that the fleet has. */
  readonly numerics?: "mixed" | undefined;
  readonly elastic?: "on" | undefined;
  /** Nothing is checked if absent. */
  readonly assurance?: "sampled" | "checked" | "proven";
  /** Of those who repeat each interval, where everything is checked; one if absent. */
  readonly strangers?: number;
  /** No state moves further than its optimizer can. */
  readonly cap?: "on" | undefined;
}

export interface Training {
  readonly scenario: Scenario;
  readonly manifest: Manifest;
  readonly policy: SessionPolicy;
  /** Makes the session this maintainer's own, however often it is asked for. */
  readonly key: string;
  readonly atMs: number;
}

export interface Question {
  readonly prompt: readonly number[];
  readonly temperature: number;
  readonly seed: number;
  readonly maxTokens: number;
}

/** An orchestrator gives up waiting for a lost PNode after a minute, and says so. */
const answerMs = 150_000;

export class Maintainer {
  readonly #host: Host;
  readonly #network: Network;
  readonly #addresses: readonly string[];

  constructor(host: Host, network: Network, addresses: readonly string[]) {
    this.#host = host;
    this.#network = network;
    this.#addresses = addresses;
  }

  /** Comes at `atMs` and does everything up to a running session; returns its id. */
  async train({ scenario, manifest, policy, key, atMs }: Training): Promise<SessionId> {
    if (atMs > 0) await sleep(this.#host.world.timers, atMs);
    await this.#created(DatasetService.method.createDataset, { name: scenario.name, manifest: manifestText(manifest) });
    await this.#created(NetworkService.method.createNetwork, {
      definition: scenario.definition,
      id: scenario.name,
      idempotencyKey: "network",
    });
    const { session } = await this.#call(SessionService.method.createSession, {
      start: true,
      idempotencyKey: key,
      settings: settingsOf(scenario, policy),
    });
    return (session as Session).id as SessionId;
  }

  /** Looks now and then, and starts again what was suspended. */
  async watch(id: string, isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      await sleep(this.#host.world.timers, 2_000);
      const { session } = await this.#call(SessionService.method.getSession, { id });
      if (session?.status === "suspended") await this.#goOn(id);
    }
  }

  async #goOn(id: string): Promise<void> {
    await this.#call(SessionService.method.startSession, { id }).catch((error) => {
      // An earlier call, whose reply was lost, has started it, and it is done by now.
      if (!hasCode(error, "failed_precondition")) throw error;
    });
  }

  /** What the session has learned answers from now on. */
  async serve(name: string, source: SessionId, audit: "on" | "off"): Promise<void> {
    await this.#call(InferenceService.method.serveModel, { name, source, replicas: 1, spread: 2, audit });
  }

  async stop(name: string): Promise<void> {
    await this.#call(InferenceService.method.stopModel, { name, forget: true }).catch((error) => {
      // An earlier call, whose reply was lost, has done it.
      if (!hasCode(error, "not_found")) throw error;
    });
  }

  /** One try, at one orchestrator; returns why the answer ended. */
  ask(model: string, question: Question, onTokens: (tokens: readonly number[]) => void): Promise<string> {
    const { prompt, temperature, seed, maxTokens } = question;
    const request = { model, tokens: [...prompt], maxTokens, sampling: { temperature, seed: BigInt(seed) } };
    return this.#inTime(async (address, signal) => {
      let finish = "";
      for await (const piece of this.#network.watch(address, InferenceService.method.generate, request, { signal })) {
        onTokens(piece.tokens);
        finish ||= piece.finish;
      }
      return finish;
    });
  }

  /** One try, at one orchestrator, for the vector of a prompt. */
  embed(model: string, prompt: readonly number[], onVector: (values: readonly number[]) => void): Promise<string> {
    return this.#inTime(async (address, signal) => {
      const options = { timeoutMs: 2 * answerMs, signal };
      const asked = { model, tokens: [...prompt] };
      onVector((await this.#network.call(address, InferenceService.method.embed, asked, options)).values);
      return "stop";
    });
  }

  /** Neither an answer nor an error for so long is a mistake of ours. */
  async #inTime(ask: (address: string, signal: AbortSignal) => Promise<string>): Promise<string> {
    const { timers, chance } = this.#host.world;
    const address = this.#addresses[Math.floor(chance.uniform() * this.#addresses.length)] as string;
    const ending = new AbortController();
    let isLate = false;
    const cancel = timers.after(answerMs, () => {
      isLate = true;
      ending.abort();
    });
    try {
      return await ask(address, ending.signal);
    } catch (error) {
      if (!isLate) throw error;
    } finally {
      cancel();
    }
    throw new DcnrError("internal", `no answer and no error within ${answerMs} ms`);
  }

  async pause(fromMs: number, toMs: number): Promise<void> {
    const { timers, chance } = this.#host.world;
    await sleep(timers, fromMs + (toMs - fromMs) * chance.uniform());
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
    lanes: scenario.lanes ?? 0,
    syncEvery: scenario.sync?.every ?? 0,
    syncAfter: BigInt(scenario.sync?.after ?? 0),
    seed: BigInt(sessionSeed),
    numerics: policy.numerics ?? "reference",
    checkpointEvery: policy.checkpointEvery,
    replicas: policy.replicas,
    spread: policy.spread ?? 0,
    autonomy: policy.autonomy ?? "",
    eras: policy.eras ?? "",
    elastic: policy.elastic ?? "",
    assurance: policy.assurance ?? "none",
    strangers: policy.strangers ?? 0,
    cap: policy.cap ?? "",
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
