// A small typed client of an orchestrator: what the CLI, the examples and app developers use.

import { create, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { DcnrError, fail, messageOf } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { KeyId, Sha256 } from "../core/ids.ts";
import type { TlsIdentity } from "../core/keys.ts";
import { BlobSpace } from "../protocol/gen/dcnr/v1/common_pb.ts";
import { type Dataset, DatasetService, type Vocabulary, VocabularyService } from "../protocol/gen/dcnr/v1/data_pb.ts";
import { FleetService, type PNode, type VNode } from "../protocol/gen/dcnr/v1/fleet_pb.ts";
import { GossipService, type ListMembersResponse, type MemberView } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import {
  type CreateApiKeyRequestSchema,
  type ForwardRequestSchema,
  type StateBlob as GrantedBlob,
  InferenceService,
  type Model,
  type Sampling,
} from "../protocol/gen/dcnr/v1/inference_pb.ts";
import {
  type Job,
  JobService,
  type JobSpecSchema,
  type Queue,
  type SetQueueRequestSchema,
} from "../protocol/gen/dcnr/v1/job_pb.ts";
import { type Balance, LedgerService } from "../protocol/gen/dcnr/v1/ledger_pb.ts";
import { type JoinPolicy, MembershipService } from "../protocol/gen/dcnr/v1/membership_pb.ts";
import { type Network as NetworkInfo, NetworkService } from "../protocol/gen/dcnr/v1/network_pb.ts";
import { type AddProviderRequestSchema, type Provider, ProviderService } from "../protocol/gen/dcnr/v1/provider_pb.ts";
import { type PlanCapacityRequestSchema, ReportService } from "../protocol/gen/dcnr/v1/report_pb.ts";
import { type ListActsRequestSchema, RightsService } from "../protocol/gen/dcnr/v1/rights_pb.ts";
import {
  type Session,
  SessionService,
  SessionSettingsSchema,
  StateChoice,
} from "../protocol/gen/dcnr/v1/session_pb.ts";
import { type Study, StudyService } from "../protocol/gen/dcnr/v1/study_pb.ts";
import { SystemService } from "../protocol/gen/dcnr/v1/system_pb.ts";
import { TrustService } from "../protocol/gen/dcnr/v1/trust_pb.ts";
import { openGrpcNetwork } from "../protocol/grpc.ts";
import type { KeyBook } from "../protocol/identity/key-book.ts";
import { type PinnedRequest, pinnedFetch } from "../protocol/identity/pinned-http.ts";
import { Tls } from "../protocol/identity/tls.ts";
import type { Network } from "../protocol/network.ts";
import { baseUrl, isLoopback, parseAddress } from "../protocol/routes/address.ts";
import { readStateManifest } from "../states/manifest.ts";
import { StateReader } from "../states/reader.ts";
import { backgroundTimers } from "../system/timers.ts";

/** As many parts as pass within the life of their addresses at a few hundred kilobytes a second. */
const partsGrantedAtOnce = 32;

export interface ConnectOptions {
  readonly apiKey?: string;
  /** A person's own key, shown over connections to addresses that name the network's. */
  readonly identity?: TlsIdentity;
  /** What is known of keys that have succeeded others. */
  readonly keys?: KeyBook;
  /** How bytes are sent to blob addresses; the global fetch unless told otherwise. */
  readonly fetch: typeof globalThis.fetch;
}

export interface GenerateOptions
  extends Partial<
    Pick<
      Sampling,
      "temperature" | "topK" | "topP" | "repetitionPenalty" | "frequencyPenalty" | "presencePenalty" | "logitBias"
    >
  > {
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  readonly signal?: AbortSignal;
}

export interface ChatTurn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Text to go on with, token ids, or a conversation, oldest turn first. */
export type GeneratePrompt = string | readonly number[] | readonly ChatTurn[];

export interface GeneratedPiece {
  readonly text: string;
  readonly tokens: number[];
  /** Empty until the last piece: "stop" or "length". */
  readonly finish: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

/** A blob with an address to fetch it from. */
export type StateBlob = Pick<GrantedBlob, "hash" | "url" | "headers">;

export type ForwardInit = Omit<MessageInitShape<typeof ForwardRequestSchema>, "$typeName" | "model">;

/** What a key should be good for; see `dcnr key create --help`. */
export type KeyInit = Omit<MessageInitShape<typeof CreateApiKeyRequestSchema>, "$typeName">;

export type ActFilter = Omit<MessageInitShape<typeof ListActsRequestSchema>, "$typeName">;

export type SessionSettingsInit = MessageInitShape<typeof SessionSettingsSchema>;

export type JobSpecInit = Omit<MessageInitShape<typeof JobSpecSchema>, "$typeName" | "spec"> & {
  readonly kind: string;
  /** What the kind needs: for "train" the session's settings, by the names of the API. */
  readonly spec?: Readonly<Record<string, unknown>>;
};

export interface ServeOptions {
  readonly name?: string;
  readonly replicas?: number;
  /** With a most above 0 replicas come and go by load. */
  readonly leastReplicas?: number;
  readonly mostReplicas?: number;
  readonly spread?: number;
  readonly provisional?: boolean;
  /** "8bit" or "4bit" keeps weights in so many bits. */
  readonly weights?: string;
}

export type QueueInit = Omit<MessageInitShape<typeof SetQueueRequestSchema>, "$typeName" | "name">;

export type ProviderInit = Omit<MessageInitShape<typeof AddProviderRequestSchema>, "$typeName">;

/** Clusters answer slowly, and several are asked one after the other. */
const testTimeoutMs = 120_000;

export type PlanInit = Omit<MessageInitShape<typeof PlanCapacityRequestSchema>, "$typeName">;

/** What a worker tells of a data job; `result` or `failure` at its end. */
export interface DataTold {
  readonly progress?: number;
  readonly result?: Record<string, string>;
  readonly failure?: string;
  readonly givesUp?: boolean;
}

export interface JobFilter {
  readonly queue?: string;
  readonly owner?: string;
  readonly statuses?: readonly string[];
}

/** For a job that trains: the settings as they stand in its spec. */
export function trainSpec(settings: SessionSettingsInit): Record<string, unknown> {
  return toJson(SessionSettingsSchema, create(SessionSettingsSchema, settings)) as Record<string, unknown>;
}

export class Client {
  readonly address: string;
  readonly network: Network;
  readonly #fetch: typeof globalThis.fetch;
  readonly #tls: Tls;

  constructor(address: string, options: ConnectOptions) {
    checkEncrypted(address);
    this.address = address;
    this.#fetch = options.fetch;
    this.#tls = new Tls(options.identity, undefined, options.keys);
    this.network = openGrpcNetwork({
      timers: backgroundTimers,
      ...(options.identity && { identity: options.identity }),
      keys: this.#tls.keys,
      ...(options.apiKey && { headers: { authorization: `Bearer ${options.apiKey}` } }),
    });
  }

  readonly system = {
    version: () => this.network.call(this.address, SystemService.method.getVersion, {}),
    health: () => this.network.call(this.address, SystemService.method.getHealth, {}),
  };

  readonly networks = {
    create: async (definition: string, options: { id?: string } = {}): Promise<NetworkInfo> => {
      const method = NetworkService.method.createNetwork;
      const { network } = await this.network.call(this.address, method, { definition, id: options.id ?? "" });
      return network!;
    },
    get: (id: string) => this.network.call(this.address, NetworkService.method.getNetwork, { id }),
    list: (): Promise<NetworkInfo[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, NetworkService.method.listNetworks, { pageToken });
        return { items: page.networks, next: page.nextPageToken };
      }),
    delete: (id: string) => this.network.call(this.address, NetworkService.method.deleteNetwork, { id }),
  };

  readonly sessions = {
    create: async (settings: SessionSettingsInit, options: { start?: boolean } = {}): Promise<Session> => {
      const method = SessionService.method.createSession;
      const { session } = await this.network.call(this.address, method, { settings, start: options.start ?? true });
      return session!;
    },
    start: async (id: string, expected?: SessionSettingsInit, options: { budget?: number } = {}): Promise<Session> => {
      const method = SessionService.method.startSession;
      const request = { id, ...(expected ? { expected } : {}), budget: BigInt(options.budget ?? 0) };
      const { session } = await this.network.call(this.address, method, request);
      return session!;
    },
    suspend: async (id: string): Promise<Session> => {
      const { session } = await this.network.call(this.address, SessionService.method.suspendSession, { id });
      return session!;
    },
    get: async (id: string): Promise<Session> => {
      const { session } = await this.network.call(this.address, SessionService.method.getSession, { id });
      return session!;
    },
    list: (): Promise<Session[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, SessionService.method.listSessions, { pageToken });
        return { items: page.sessions, next: page.nextPageToken };
      }),
    watch: (id: string, signal?: AbortSignal) =>
      this.network.watch(this.address, SessionService.method.watchSession, { id }, { signal }),
    delete: (id: string) => this.network.call(this.address, SessionService.method.deleteSession, { id }),
    metrics: (session: string, names: string[] = []) =>
      allPages(async (pageToken) => {
        const method = SessionService.method.listMetrics;
        const page = await this.network.call(this.address, method, { session, names, pageToken });
        return { items: page.metrics, next: page.nextPageToken };
      }),
    /** Addresses of all VNodes' states at the newest stored step, or at the one that validated best. */
    states: (session: string, choice: "last" | "best" = "last", provisional = false) =>
      this.network.call(this.address, SessionService.method.listStates, {
        session,
        choice: choice === "best" ? StateChoice.BEST : StateChoice.LAST,
        provisional,
      }),
    stepRoots: (session: string) =>
      allPages(async (pageToken) => {
        const method = SessionService.method.listStepRoots;
        const page = await this.network.call(this.address, method, { session, pageToken });
        return { items: page.roots, next: page.nextPageToken };
      }),
  };

  readonly jobs = {
    /** All of them, or none if one is wrong. With keys, asking again is safe: the same jobs come back. */
    submit: async (jobs: readonly JobSpecInit[], options: { owner?: string } = {}): Promise<Job[]> => {
      const method = JobService.method.submitJobs;
      const specs = jobs.map(({ spec, ...job }) => ({ ...job, spec: JSON.stringify(spec ?? {}) }));
      return (await this.network.call(this.address, method, { jobs: specs, owner: options.owner ?? "" })).jobs;
    },
    get: async (id: string): Promise<Job> => {
      const { job } = await this.network.call(this.address, JobService.method.getJob, { id });
      return job!;
    },
    list: (filter: JobFilter = {}): Promise<Job[]> =>
      allPages(async (pageToken) => {
        const request = { queue: "", owner: "", ...filter, statuses: [...(filter.statuses ?? [])], pageToken };
        const page = await this.network.call(this.address, JobService.method.listJobs, request);
        return { items: page.jobs, next: page.nextPageToken };
      }),
    logs: async (id: string) => (await this.network.call(this.address, JobService.method.listJobLogs, { id })).events,
    watch: (id: string, signal?: AbortSignal) =>
      this.network.watch(this.address, JobService.method.watchJob, { id }, { signal }),
    cancel: async (id: string): Promise<Job> => {
      const { job } = await this.network.call(this.address, JobService.method.cancelJob, { id });
      return job!;
    },
    retry: async (id: string): Promise<Job> => {
      const { job } = await this.network.call(this.address, JobService.method.retryJob, { id });
      return job!;
    },
    /** A data job of one's own that nobody works on, with the word by which to tell how it goes. */
    takeData: async (worker: string): Promise<{ job: Job; token: string } | undefined> => {
      const { job, token } = await this.network.call(this.address, JobService.method.takeDataJob, { worker });
      return job && { job, token };
    },
    /** False if somebody else has it now, or nobody wants it any more. */
    tellData: async (id: string, token: string, told: DataTold): Promise<boolean> => {
      const method = JobService.method.tellDataJob;
      return (await this.network.call(this.address, method, { id, token, ...told })).goesOn;
    },
  };

  /** A study is submitted as a job of the kind "tune", and stopped and resumed by cancelling and retrying that. */
  readonly studies = {
    get: async (id: string): Promise<Study> => {
      const { study } = await this.network.call(this.address, StudyService.method.getStudy, { id });
      return study!;
    },
    /** Without their trials. */
    list: (): Promise<Study[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, StudyService.method.listStudies, { pageToken });
        return { items: page.studies, next: page.nextPageToken };
      }),
    addTrials: async (id: string, trials: number): Promise<Study> => {
      const { study } = await this.network.call(this.address, StudyService.method.addTrials, { id, trials });
      return study!;
    },
  };

  readonly queues = {
    list: async (): Promise<Queue[]> =>
      (await this.network.call(this.address, JobService.method.listQueues, {})).queues,
    set: async (name: string, change: QueueInit): Promise<Queue> => {
      const { queue } = await this.network.call(this.address, JobService.method.setQueue, { ...change, name });
      return queue!;
    },
    delete: (name: string) => this.network.call(this.address, JobService.method.deleteQueue, { name }),
  };

  readonly providers = {
    list: async (): Promise<Provider[]> =>
      (await this.network.call(this.address, ProviderService.method.listProviders, {})).providers,
    add: async (provider: ProviderInit): Promise<Provider> => {
      const added = await this.network.call(this.address, ProviderService.method.addProvider, provider);
      return added.provider!;
    },
    /** Looks whether it could start machines; what was found, in sentences. */
    test: (name: string) =>
      this.network.call(this.address, ProviderService.method.testProvider, { name }, { timeoutMs: testTimeoutMs }),
    remove: (name: string) => this.network.call(this.address, ProviderService.method.removeProvider, { name }),
  };

  readonly reports = {
    /** Uptime, failures and what they cost, over the last seconds; a week if 0. */
    availability: (request: { lastSeconds?: number; by?: string; objective?: number } = {}) =>
      this.network.call(this.address, ReportService.method.getReport, request),
    /** What more machines of a kind would give. */
    plan: (kind: PlanInit) => this.network.call(this.address, ReportService.method.planCapacity, kind),
  };

  readonly datasets = {
    /** Sends a blob unless it is there already; `space` says what it is for. */
    upload: async (content: Uint8Array, space: BlobSpace = BlobSpace.DATASETS): Promise<string> => {
      const hash = sha256(content);
      const method = DatasetService.method.grantUpload;
      const grant = await this.network.call(this.address, method, { hash, bytes: BigInt(content.byteLength), space });
      if (grant.present) return hash;
      const request = { method: "PUT", headers: grant.headers, body: content as Uint8Array<ArrayBuffer> };
      const response = await this.#send(grant.url, request).catch((error: unknown) => {
        throw brokenOff("upload", grant.url, error);
      });
      if (!response.ok)
        throw new DcnrError(
          "unavailable",
          `the upload was refused (${response.status}): ${(await response.text()).trim()}`,
        );
      return hash;
    },
    /** `lineage`: where it comes from, as JSON (data/lineage.ts). */
    create: async (name: string, manifest: string, lineage = ""): Promise<Dataset> => {
      const method = DatasetService.method.createDataset;
      const { dataset } = await this.network.call(this.address, method, { name, manifest, lineage });
      return dataset!;
    },
    get: (name: string) => this.network.call(this.address, DatasetService.method.getDataset, { name }),
    list: (): Promise<Dataset[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, DatasetService.method.listDatasets, { pageToken });
        return { items: page.datasets, next: page.nextPageToken };
      }),
    /** A blob of the dataset, for work on its content; whoever uses it checks its hash. */
    download: async (name: string, hash: string): Promise<Uint8Array> => {
      const method = DatasetService.method.grantDownload;
      return this.#download(await this.network.call(this.address, method, { name, hash }));
    },
    delete: (name: string) => this.network.call(this.address, DatasetService.method.deleteDataset, { name }),
    samples: async (name: string, start: number, count: number) => {
      const method = DatasetService.method.showSamples;
      const { samples } = await this.network.call(this.address, method, { name, start: BigInt(start), count });
      return samples;
    },
  };

  readonly vocabularies = {
    /** Uploads a tokenizer.json and gives it a name. */
    create: async (name: string, tokenizer: string): Promise<Vocabulary> => {
      const hash = await this.datasets.upload(new TextEncoder().encode(tokenizer), BlobSpace.VOCABULARIES);
      const method = VocabularyService.method.createVocabulary;
      const { vocabulary } = await this.network.call(this.address, method, { name, hash });
      return vocabulary!;
    },
    get: async (name: string): Promise<{ vocabulary: Vocabulary; tokenizer: string }> => {
      const found = await this.network.call(this.address, VocabularyService.method.getVocabulary, { name });
      return { vocabulary: found.vocabulary!, tokenizer: new TextDecoder().decode(await this.#download(found)) };
    },
    list: (): Promise<Vocabulary[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, VocabularyService.method.listVocabularies, { pageToken });
        return { items: page.vocabularies, next: page.nextPageToken };
      }),
    delete: (name: string) => this.network.call(this.address, VocabularyService.method.deleteVocabulary, { name }),
  };

  /** A state or vocabulary that was granted; refused if it is not what its hash says. */
  async download(blob: StateBlob): Promise<Uint8Array> {
    const content = await this.#download(blob);
    if (sha256(content) !== blob.hash)
      throw new DcnrError("data_loss", `the blob ${blob.hash} arrived damaged: try again`);
    return content;
  }

  /** A stored state, by its granted manifest: its tensors are fetched when they are asked for. */
  async openState(blob: StateBlob, what: string): Promise<StateReader> {
    const manifest = readStateManifest(await this.download(blob), what);
    const parts = new Map<string, StateBlob>();
    const grant = async (hash: Sha256): Promise<StateBlob> => {
      const known = parts.get(hash);
      if (known) return known;
      const first = manifest.parts.indexOf(hash);
      const request = { state: blob.hash, first, count: partsGrantedAtOnce };
      const granted = await this.network.call(this.address, InferenceService.method.grantParts, request);
      for (const part of granted.parts) parts.set(part.hash, part);
      return parts.get(hash) ?? fail("data_loss", `${what} lacks its part ${hash}`);
    };
    const fetchPart = async (hash: Sha256, into: Uint8Array) => {
      const address = await grant(hash);
      // Addresses live for a limited time: the next part asks again.
      parts.delete(hash);
      const content = await this.download(address);
      if (content.byteLength !== into.byteLength)
        fail(
          "data_loss",
          `part ${hash} of ${what} has ${content.byteLength} bytes, its manifest says ${into.byteLength}`,
        );
      into.set(content);
    };
    return new StateReader({ manifest, fetchPart, clock: { monotonicMs: () => 0 }, what });
  }

  /** What the orchestrator serves itself is a path at the place where it was asked. */
  #send(url: string, init: PinnedRequest): Promise<Response> {
    if (!url.startsWith("/")) return this.#fetch(url, init as RequestInit);
    if (parseAddress(this.address).key !== undefined) return pinnedFetch(this.#tls, this.address, url, init);
    return this.#fetch(`${baseUrl(this.address)}${url}`, init as RequestInit);
  }

  async #download({ url, headers }: { url: string; headers: Record<string, string> }): Promise<Uint8Array> {
    try {
      const response = await this.#send(url, { headers });
      if (response.ok) return new Uint8Array(await response.arrayBuffer());
      const why = (await response.text()).trim();
      throw new DcnrError("unavailable", `the download was refused (${response.status}): ${why}`);
    } catch (error) {
      throw error instanceof DcnrError ? error : brokenOff("download", url, error);
    }
  }

  readonly models = {
    serve: async (source: string, options: ServeOptions = {}): Promise<Model> => {
      const method = InferenceService.method.serveModel;
      const request = { source, name: "", replicas: 1, ...options };
      return (await this.network.call(this.address, method, request)).model!;
    },
    register: async (model: {
      name: string;
      definition: string;
      states: Record<string, string>;
      tokenizer?: string;
      chat?: string;
    }) => {
      const method = InferenceService.method.registerModel;
      return (await this.network.call(this.address, method, model)).model!;
    },
    list: async (): Promise<Model[]> =>
      (await this.network.call(this.address, InferenceService.method.listModels, {})).models,
    stop: (name: string, options: { forget?: boolean } = {}) =>
      this.network.call(this.address, InferenceService.method.stopModel, { name, forget: options.forget ?? false }),
    /** Definition and state blobs of a session or model, with addresses to download them from. */
    describe: (source: string, provisional = false) =>
      this.network.call(this.address, InferenceService.method.describeState, { source, provisional }),
    forward: (model: string, request: ForwardInit) =>
      this.network.call(this.address, InferenceService.method.forward, { ...request, model }, { timeoutMs: 60_000 }),
  };

  /** An answer as it is generated: pieces of text, the last one with a reason why it ended. */
  generate(model: string, prompt: GeneratePrompt, options: GenerateOptions = {}): AsyncIterable<GeneratedPiece> {
    const { maxTokens = 128, stop = [], signal, ...sampling } = options;
    const { seed = 0, ...rest } = sampling;
    const request = {
      model,
      ...promptFields(prompt),
      maxTokens,
      stop: [...stop],
      sampling: { ...rest, seed: BigInt(seed) },
    };
    return this.network.watch(this.address, InferenceService.method.generate, request, { signal });
  }

  readonly keys = {
    create: (wish: KeyInit) => this.network.call(this.address, InferenceService.method.createApiKey, wish),
    /** Rights for a person's own key, of which only the person has the secret half. */
    admit: (key: string, wish: KeyInit) =>
      this.network.call(this.address, RightsService.method.admitKey, { ...wish, key }),
    list: async () => (await this.network.call(this.address, InferenceService.method.listApiKeys, {})).keys,
    delete: (id: string) => this.network.call(this.address, InferenceService.method.deleteApiKey, { id }),
  };

  readonly rights = {
    /** Whom the orchestrator takes this client for. */
    caller: () => this.network.call(this.address, RightsService.method.getCaller, {}),
    /** Replaces the network's key by one that it signs for. */
    rotateNetworkKey: () => this.network.call(this.address, RightsService.method.rotateNetworkKey, {}),
    /** Administrative acts, newest first, at most `limit` of them. */
    acts: (filter: ActFilter = {}) => this.network.call(this.address, RightsService.method.listActs, filter),
  };

  readonly members = {
    /** Everybody whom the process at the address knows by gossip; a PNode answers this too. */
    list: async (): Promise<{ members: MemberView[]; answer: Omit<ListMembersResponse, "members"> }> => {
      const method = GossipService.method.listMembers;
      let answer: ListMembersResponse | undefined;
      const members = await allPages(async (pageToken) => {
        answer = await this.network.call(this.address, method, { pageToken });
        return { items: answer.members, next: answer.nextPageToken };
      });
      return { members, answer: answer as ListMembersResponse };
    },
    invite: async (wish: { uses: number; lifetimeSeconds: number; note: string }) => {
      const method = MembershipService.method.createInvite;
      const request = { ...wish, lifetimeSeconds: BigInt(wish.lifetimeSeconds) };
      const made = await this.network.call(this.address, method, request);
      const { token, orchestrators, networkKey, expiresWallMs } = made;
      return { token, orchestrators, key: networkKey as KeyId, expiresWallMs: Number(expiresWallMs) };
    },
    policy: () => this.network.call(this.address, MembershipService.method.getJoinPolicy, {}),
    setPolicy: (policy: JoinPolicy) =>
      this.network.call(this.address, MembershipService.method.setJoinPolicy, { policy }),
    admit: (pnode: string) => this.network.call(this.address, MembershipService.method.admitPNode, { pnode }),
    revoke: (pnode: string, reason = "") =>
      this.network.call(this.address, MembershipService.method.revokePNode, { pnode, reason }),
    drain: (pnode: string, undo = false) =>
      this.network.call(this.address, MembershipService.method.drainPNode, { pnode, undo }),
    forget: (pnode: string) => this.network.call(this.address, MembershipService.method.forgetPNode, { pnode }),
  };

  readonly credits = {
    /** Who earned most comes first; `owner` may also be a PNode's name or id. */
    balances: (owner = ""): Promise<Balance[]> =>
      allPages(async (pageToken) => {
        const method = LedgerService.method.listBalances;
        const page = await this.network.call(this.address, method, { owner, pageToken });
        return { items: page.balances, next: page.nextPageToken };
      }),
    spending: async (pageToken = "") =>
      this.network.call(this.address, LedgerService.method.listSpending, { pageToken }),
    /** The newest signed state, with the ends of all chains. */
    head: () => this.network.call(this.address, LedgerService.method.getHead, {}),
    /** The first `size` blocks of a chain, as they are hashed. */
    blocks: async function* (this: Client, chain: string, size: number): AsyncGenerator<string> {
      for (let from = 0; from < size; ) {
        const { blocks } = await this.network.call(this.address, LedgerService.method.listBlocks, {
          chain,
          from: BigInt(from),
        });
        if (blocks.length === 0) fail("data_loss", `the chain ${chain} ends at ${from} blocks, its head says ${size}`);
        yield* blocks.slice(0, size - from);
        from += blocks.length;
      }
    }.bind(this),
    /** Notes that credits were paid for outside; the same id again changes nothing. */
    payout: (payout: { id: string; pnode: string; credits: number; note?: string }) =>
      this.network.call(this.address, LedgerService.method.recordPayout, {
        ...payout,
        credits: BigInt(payout.credits),
      }),
    /** For a client that shows a PNode's own key. */
    bond: (move: { id: string; credits: number; release?: boolean }) =>
      this.network.call(this.address, LedgerService.method.moveBond, { ...move, credits: BigInt(move.credits) }),
    setBudget: (owner: string, credits: number) =>
      this.network.call(this.address, LedgerService.method.setBudget, { owner, credits: BigInt(credits) }),
  };

  /** What was checked, by whom, and what follows for machines and sessions. */
  readonly trust = {
    standings: async (pnode = "") =>
      (await this.network.call(this.address, TrustService.method.listStandings, { pnode })).standings,
    assurance: (session: string) => this.network.call(this.address, TrustService.method.getAssurance, { session }),
    set: (pnode: string, standing: "trusted" | "known" | "banned", reason = "") =>
      this.network.call(this.address, TrustService.method.setTrust, { pnode, standing, reason }),
  };

  readonly fleet = {
    pnodes: (): Promise<PNode[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, FleetService.method.listPNodes, { pageToken });
        return { items: page.pnodes, next: page.nextPageToken };
      }),
    vnodes: (session = ""): Promise<VNode[]> =>
      allPages(async (pageToken) => {
        const page = await this.network.call(this.address, FleetService.method.listVNodes, { session, pageToken });
        return { items: page.vnodes, next: page.nextPageToken };
      }),
    status: () => this.network.call(this.address, FleetService.method.getStatus, {}),
    events: async (afterSequence = 0n, options: { session?: string; kindPrefix?: string } = {}) => {
      const method = FleetService.method.listEvents;
      const { events } = await this.network.call(this.address, method, {
        afterSequence,
        session: options.session ?? "",
        kindPrefix: options.kindPrefix ?? "",
      });
      return events;
    },
    watch: (signal?: AbortSignal) => this.network.watch(this.address, FleetService.method.watchFleet, {}, { signal }),
  };

  close(): Promise<void> {
    return this.network.close();
  }
}

function promptFields(prompt: GeneratePrompt) {
  if (typeof prompt === "string") return { prompt };
  const isTurn = (item: number | ChatTurn): item is ChatTurn => typeof item === "object";
  const messages = prompt.filter(isTurn);
  return messages.length > 0 ? { messages } : { tokens: prompt as number[] };
}

/** Addresses carry a token, so only the host and the blob's name are told. Those without a host are the orchestrator's. */
function brokenOff(what: "download" | "upload", url: string, error: unknown): DcnrError {
  const { host, pathname } = URL.canParse(url)
    ? new URL(url)
    : { host: "the orchestrator", pathname: url.split("?", 1)[0] ?? "" };
  const blob = pathname.slice(pathname.lastIndexOf("/") + 1);
  const { cause } = error as { cause?: unknown };
  const damaged = what === "download" ? ", or the blob is damaged there" : "";
  return new DcnrError(
    "unavailable",
    `the ${what} of blob ${blob} with ${host} broke off (${messageOf(cause ?? error)}): it cannot be reached${damaged}`,
    { cause: error },
  );
}

async function allPages<T>(page: (token: string) => Promise<{ items: T[]; next: string }>): Promise<T[]> {
  const items: T[] = [];
  for (let token = ""; ; ) {
    const answer = await page(token);
    items.push(...answer.items);
    if (answer.next === "") return items;
    token = answer.next;
  }
}

/** Orchestrators answer nothing in plain text beyond their own machine, so nobody should send them a key that way. */
function checkEncrypted(address: string): void {
  const { host, key, secure } = parseAddress(address);
  if (isLoopback(host) || key !== undefined || secure || address.startsWith("http://")) return;
  fail(
    "invalid_argument",
    `${address} is on another machine, and plain text is not sent there: write ${address}#KEY with the network's key, which the ` +
      "orchestrator prints, https:// for one with a certificate, or http:// if you mean it",
  );
}
