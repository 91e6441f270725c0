// What orchestrators keep in the store: the records, their keys, and nothing else. All state that must
// outlive a process is here; heartbeats, suspicion and watchers live in memory.

import {
  isReplicaId,
  type NetworkId,
  type OrchestratorId,
  type PNodeId,
  type ReplicaId,
  type SessionId,
  type Sha256,
  type VNodeId,
  type WorkloadId,
} from "../../core/ids.ts";
import { type DatasetRecord, datasetKey } from "../../data/datasets.ts";
import type { SessionIdentity, SessionPolicy, SessionRequirements } from "../../network/session.ts";
import type { Room } from "../../scheduler/room.ts";

export interface NetworkRecord {
  readonly id: NetworkId;
  readonly name: string;
  /** Blob of the definition's text, kept verbatim. */
  readonly definition: Sha256;
  readonly parameters: number;
  readonly vnodes: number;
  readonly nodes: number;
  readonly createdWallMs: number;
}

export type SessionStatus = "created" | "waiting" | "running" | "suspended" | "done" | "failed" | "deleted";

export interface BestState {
  readonly step: number;
  readonly loss: number;
}

/** What is placed as a whole and has VNodes. Placement, recovery, claims, leases and assignments know no more of it. */
export interface WorkloadRecord {
  readonly id: WorkloadId;
  /** Decides what is computed, and who can. */
  readonly identity: Pick<SessionIdentity, "definition" | "numerics" | "bits">;
  /** Without `replicas` every VNode has one owner. */
  readonly policy: Partial<Pick<SessionPolicy, "replicas" | "spread">>;
  readonly requirements: SessionRequirements;
  readonly status: SessionStatus;
  /** Why it waits or failed; empty otherwise. */
  readonly reason: string;
  readonly vnodes: readonly VNodeId[];
  /** All owners compute in this class, chosen at the first placement. */
  readonly numericsClass: string;
  readonly createdWallMs: number;
  readonly endedWallMs: number;
}

/** A training. */
export interface SessionRecord extends WorkloadRecord {
  readonly id: SessionId;
  readonly network: NetworkId;
  readonly dataset: string;
  readonly identity: SessionIdentity;
  readonly policy: SessionPolicy;
  /** Newest step that is durable at every VNode. */
  readonly line: number;
  /** The line before, kept in case a blob of the line turns out to be damaged. */
  readonly lineBefore: number;
  /** How often the session went back to an earlier line because a state was lost; absent: never. */
  readonly turn?: number;
  readonly stepRoot: string;
  readonly best?: BestState;
  readonly startedWallMs: number;
  /** Milliseconds of running before the last start, for `maxRuntimeSeconds`. */
  readonly ranMs: number;
  /** For a session that starts from another one's weights: their states at step 0. */
  readonly initialStates?: Readonly<Record<string, StoredState>>;
  /** The chat format of what it starts from, and the vocabulary that this was made for. */
  readonly chat?: { readonly hash: string; readonly tokenizer: string };
  readonly idempotencyKey?: string;
}

/** One copy of a served model. The model names its replicas; whoever is named by none ends (serving/unnamed.ts). */
export interface ReplicaRecord extends WorkloadRecord {
  readonly id: ReplicaId;
  readonly model: string;
  readonly identity: ReplicaIdentity;
}

/** What decides a replica's answers. */
export interface ReplicaIdentity extends Pick<SessionIdentity, "definition" | "numerics" | "bits"> {
  /** The weights, by VNode. */
  readonly states: Readonly<Record<string, StoredState>>;
}

export interface Member {
  readonly pnode: PNodeId;
  readonly incarnation: string;
  /** The PNode's when it was chosen. A late registration may bring an incarnation back, but never a life. */
  readonly life: number;
  /** The epoch at which it became a member; what it records under an older one is refused. */
  readonly since: number;
  /** Id of its claim in the PNode's room record: written before this, and given back after this has gone. */
  readonly claim: string;
  /** Why it was put there, for people. */
  readonly reason: string;
}

export interface StoredState {
  readonly hash: Sha256;
  readonly bytes: number;
}

export interface VNodeRecord {
  /** The session or replica that it belongs to. */
  readonly session: WorkloadId;
  readonly vnode: VNodeId;
  /** Grows with every change of the members. */
  readonly epoch: number;
  /** The first is the primary; the others execute too. */
  readonly members: readonly Member[];
  /** Checkpoints by step, none of a replica's. Step 0 follows from the seed, unless the session starts from a state. */
  readonly durable: Readonly<Record<string, StoredState>>;
  /** Hash of the state after each step above the recovery line. */
  readonly stepHashes: Readonly<Record<string, string>>;
  /** PNodes on which it failed at its present place in the run, and why. */
  readonly failures: readonly {
    readonly pnode: PNodeId;
    readonly detail: string;
    /** The PNode had no room for it, which is no fault of the VNode and passes. */
    readonly refusedWallMs?: number;
  }[];
  /** What it needs of its host: copied from the plan, so that whoever counts capacity need not compile. */
  readonly memoryBytes: number;
  /** One training step: forward and backward of a whole batch. */
  readonly flops: number;
}

/** Create-only: the roots of the steps after the line before, up to this line. */
export interface StepRecord {
  readonly session: SessionId;
  readonly line: number;
  readonly roots: readonly { readonly step: number; readonly root: Sha256 }[];
}

export type PNodeStatus = "online" | "leaving" | "lost" | "left" | "quarantined";

export interface GpuFacts {
  readonly model: string;
  readonly memoryBytes: number;
  readonly vendor: string;
}

export interface PNodeFacts {
  readonly cpuModel: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly architecture: string;
  readonly platform: string;
  readonly gpus: readonly GpuFacts[];
  readonly gflops: number;
  readonly numerics: readonly { readonly engine: string; readonly class: string }[];
  readonly bandwidthBytesPerSecond: number;
  readonly latencyMs: number;
}

export interface PNodeLimits {
  /** 0 means no limit, in all of them. */
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly bandwidthBytesPerSecond: number;
  readonly hours: string;
}

export interface PNodeHistory {
  readonly failures: number;
  readonly leaves: number;
  readonly uptimeMs: number;
  /** 0 to 1 as of `uptimeMs`; recovers with uptime, falls with failures. */
  readonly reliability: number;
}

export interface PNodeRecord {
  readonly id: PNodeId;
  readonly name: string;
  readonly incarnation: string;
  /** Counts its incarnations: what was claimed of an earlier one is no longer claimed. */
  readonly life: number;
  readonly status: PNodeStatus;
  readonly orchestrator: OrchestratorId;
  readonly orchestratorIncarnation: string;
  /** New with every attachment: whoever declares a PNode lost names the attachment that broke. */
  readonly attachment: string;
  readonly address: string;
  /** Version of the bits that its build computes; 0 for one that does not say. */
  readonly bits: number;
  readonly facts: PNodeFacts;
  readonly limits: PNodeLimits;
  readonly owner: string;
  readonly region: string;
  readonly provider: string;
  readonly pricePerHour: number;
  readonly trust: string;
  /** Its owner's hours or limits say no for now: nothing comes to it, and what it hosts goes elsewhere. */
  readonly closed?: boolean;
  /** It is alive, but peers do not reach it or it does not reach them: the same for a while. */
  readonly unreachable?: boolean;
  /** An operator has sent its work elsewhere. */
  readonly drained?: boolean;
  /** How long it is waited for at first, since it was taken for lost and lived; absent: as anybody. */
  readonly patienceMs?: number;
  readonly history: PNodeHistory;
  readonly warnings: readonly string[];
  readonly detail: string;
}

/** May host VNodes. */
export function isOpen(record: PNodeRecord): boolean {
  return record.status === "online" && !record.closed && !record.unreachable && !record.drained;
}

/** What the network's operators say of the holder of a key; it outlives the PNode's own record. */
export interface MemberRecord {
  readonly pnode: PNodeId;
  readonly standing: "admitted" | "revoked";
  /** The invite that it came with, if any. */
  readonly invite?: string;
  /** For people. */
  readonly reason: string;
  readonly sinceWallMs: number;
}

/** Who may join without being a member yet. */
export interface PolicyRecord {
  readonly join: "open" | "invited" | "listed";
}

export interface InviteRecord {
  readonly id: string;
  /** Of the whole token. */
  readonly hash: Sha256;
  readonly usesLeft: number;
  readonly expiresWallMs: number;
  readonly note: string;
}

/** What is claimed of a PNode. It is changed only by functions that refuse more than the PNode's owner lends. */
export interface RoomRecord extends Room {
  readonly pnode: PNodeId;
}

export interface OrchestratorRecord {
  readonly id: OrchestratorId;
  readonly incarnation: string;
  readonly address: string;
  readonly beat: number;
}

export interface LeaseRecord {
  readonly holder: OrchestratorId;
  readonly incarnation: string;
  /** Grows with each takeover. */
  readonly token: number;
}

/** What is trained and has a name. */
export interface ModelRecord {
  readonly name: string;
  /** The session or import it comes from. */
  readonly source: string;
  readonly network: string;
  readonly definition: Sha256;
  readonly states: Readonly<Record<string, StoredState>>;
  readonly tokenizer: string;
  /** Hash of its chat format; absent: none. */
  readonly chat?: string;
  /** The chat format has a template. */
  readonly converses?: boolean;
  readonly parameters: number;
  readonly context: number;
  readonly vocabulary: number;
  /** Those that serve it; none while it is stopped. */
  readonly replicas: readonly ReplicaId[];
  readonly createdWallMs: number;
}

/** Create-only: numbers that PNodes told, in the order in which they came. */
export interface MetricRecord {
  readonly session: string;
  readonly points: readonly (readonly [name: string, step: number, value: number, vnode: string])[];
}

/** What every orchestrator keeps in memory whole, by the first part of its key. */
export interface MirroredKinds {
  readonly network: NetworkRecord;
  readonly session: SessionRecord;
  readonly replica: ReplicaRecord;
  readonly vnode: VNodeRecord;
  readonly pnode: PNodeRecord;
  readonly lease: LeaseRecord;
  readonly room: RoomRecord;
  readonly member: MemberRecord;
  readonly policy: PolicyRecord;
}

export type MirroredKind = keyof MirroredKinds;

export const mirroredKinds: readonly MirroredKind[] = [
  "session",
  "replica",
  "vnode",
  "pnode",
  "network",
  "lease",
  "room",
  "member",
  "policy",
];

declare const recordOf: unique symbol;

/** A key of the store that knows which record is under it. */
export type Key<T extends object> = string & { readonly [recordOf]: T };
/** The beginning of the keys of such records. */
export type Prefix<T extends object> = string & { readonly [recordOf]: T };

export const key = {
  network: (id: string) => named<NetworkRecord>(`network/${id}`),
  dataset: (name: string) => named<DatasetRecord>(datasetKey(name)),
  session: (id: string) => named<SessionRecord>(`session/${id}`),
  replica: (id: string) => named<ReplicaRecord>(`replica/${id}`),
  /** A session's or a replica's, whichever is called so. */
  workload: (id: string) => named<WorkloadRecord>(`${isReplicaId(id) ? "replica" : "session"}/${id}`),
  vnode: (workload: string, vnode: string) => named<VNodeRecord>(`vnode/${workload}/${vnode}`),
  step: (session: string, line: number) => named<StepRecord>(`step/${session}/${padded(line)}`),
  pnode: (id: string) => named<PNodeRecord>(`pnode/${id}`),
  room: (pnode: string) => named<RoomRecord>(`room/${pnode}`),
  member: (pnode: string) => named<MemberRecord>(`member/${pnode}`),
  policy: () => named<PolicyRecord>("policy/join"),
  invite: (id: string) => named<InviteRecord>(`invite/${id}`),
  orchestrator: (id: string) => named<OrchestratorRecord>(`orchestrator/${id}`),
  lease: (workload: string) => named<LeaseRecord>(`lease/${workload}`),
  metric: (session: string, step: number, writer: string) =>
    named<MetricRecord>(`metric/${session}/${padded(step)}-${writer}`),
  model: (name: string) => named<ModelRecord>(`model/${name}`),
  event: (wallMs: number, writer: string) => `event/${padded(wallMs)}-${writer}`,
};

export const prefix = {
  networks: named<NetworkRecord>("network/"),
  sessions: named<SessionRecord>("session/"),
  replicas: named<ReplicaRecord>("replica/"),
  vnodes: named<VNodeRecord>("vnode/"),
  vnodesOf: (workload: string) => named<VNodeRecord>(`vnode/${workload}/`),
  stepsOf: (session: string) => named<StepRecord>(`step/${session}/`),
  pnodes: named<PNodeRecord>("pnode/"),
  rooms: named<RoomRecord>("room/"),
  orchestrators: named<OrchestratorRecord>("orchestrator/"),
  metrics: named<MetricRecord>("metric/"),
  metricsOf: (session: string) => named<MetricRecord>(`metric/${session}/`),
  models: named<ModelRecord>("model/"),
};

function named<T extends object>(text: string): Key<T> {
  return text as Key<T>;
}

/** So that byte order is numeric order. */
export function padded(value: number): string {
  return String(value).padStart(15, "0");
}

/** Undefined for what is not mirrored. */
export function mirroredKindOf(storeKey: string): MirroredKind | undefined {
  const kind = storeKey.slice(0, storeKey.indexOf("/"));
  return mirroredKinds.find((one) => one === kind);
}
