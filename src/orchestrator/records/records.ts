// What orchestrators keep in the store: the records, their keys, and nothing else. All state that must
// outlive a process is here; heartbeats, suspicion and watchers live in memory.

import {
  isReplicaId,
  type JobId,
  type KeyId,
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
import type { SessionIdentity, SessionPolicy, SessionRequirements } from "../../network/settings/session.ts";
import type { Routes } from "../../protocol/routes.ts";
import type { Room } from "../../scheduler/room.ts";
import type { Statement } from "../../trust/statement.ts";
import type { Block } from "../ledger/block.ts";
import type { SignedHead } from "../ledger/heads.ts";
import type { CohortRecord, JobRecord, UseRecord } from "./jobs.ts";
import type { InstanceRecord, ProviderRecord } from "./providers.ts";

export interface NetworkRecord {
  readonly id: NetworkId;
  readonly name: string;
  /** Blob of the definition's text, kept verbatim. */
  readonly definition: Sha256;
  readonly parameters: number;
  readonly vnodes: number;
  readonly nodes: number;
  readonly createdWallMs: number;
  /** Whose key made it; absent where none was needed. */
  readonly owner?: string;
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
  /** Whose key made it; absent where none was needed. */
  readonly owner?: string;
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
  /** Of a session that is checked: everything up to here was, as its assurance asks. Never goes back. */
  readonly final?: number;
  /** Told with every line: what is checked, and whose inputs are kept for that. */
  readonly drawn?: readonly DrawnInterval[];
  /** The line at which somebody was last found wrong: more is checked for a while. */
  readonly alarm?: number;
  /** VNode-intervals below `final`, by who recomputed them. */
  readonly certificate?: Certificate;
  readonly best?: BestState;
  /** The step up to which the ledger has paid for its work; absent: none. */
  readonly settled?: number;
  readonly startedWallMs: number;
  /** Milliseconds of running before the last start, for `maxRuntimeSeconds`. */
  readonly ranMs: number;
  /** For a session that starts from another one's weights: their states at step 0. */
  readonly initialStates?: Readonly<Record<string, StoredState>>;
  /** The chat format of what it starts from, and the vocabulary that this was made for. */
  readonly chat?: { readonly hash: string; readonly tokenizer: string };
  readonly idempotencyKey?: string;
  /** The job that says when it runs; absent: it runs as soon as there is room. */
  readonly job?: JobId;
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
  /** The session's when it was recorded; absent: 0. */
  readonly turn?: number;
}

export interface DrawnInterval {
  readonly vnode: VNodeId;
  readonly from: number;
  readonly to: number;
}

export interface Certificate {
  readonly trusted: number;
  readonly strangers: number;
  readonly nobody: number;
  /** The step root at `final`. */
  readonly root: string;
}

/** A statement with whoever made it. */
export interface Stated {
  readonly pnode: PNodeId;
  readonly turn: number;
  readonly statement: Statement;
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
  /** Of a session that is checked: what owners said of the intervals above the line, by their last step. */
  readonly statements?: Readonly<Record<string, readonly Stated[]>>;
  /** What is recorded in an earlier turn of the session is void; absent: 0. */
  readonly turn?: number;
  /** Hash of the state after each step above the recovery line. */
  readonly stepHashes: Readonly<Record<string, string>>;
  /** PNodes on which it failed at its present place in the run, and why. */
  readonly failures: readonly {
    readonly pnode: PNodeId;
    readonly detail: string;
    /** The PNode had no room for it, which is no fault of the VNode and passes. */
    readonly refusedWallMs?: number;
  }[];
  /** Who brought it to each step that became durable, the last first, until the ledger has paid for the steps up to there. */
  readonly work?: Readonly<Record<string, readonly PNodeId[]>>;
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
  readonly routes: Routes;
  /** Version of the bits that its build computes; 0 for one that does not say. */
  readonly bits: number;
  readonly facts: PNodeFacts;
  readonly limits: PNodeLimits;
  readonly owner: string;
  readonly region: string;
  readonly provider: string;
  readonly pricePerHour: number;
  readonly trust: string;
  /** It has taken part in steps of real work: no newcomer any more (fleet/believed/newcomers.ts). */
  readonly worked?: boolean;
  /** The /24 or /48 that it calls from; absent where that says nothing. */
  readonly network?: string;
  /** Its results were found wrong, or are in doubt, for this reason: nothing comes to it, and what it hosts goes elsewhere. */
  readonly barred?: string;
  /** Numerics classes in which it computes other bits than the rest. */
  readonly excluded?: readonly string[];
  /** Its owner's hours or limits say no for now: nothing comes to it, and what it hosts goes elsewhere. */
  readonly closed?: boolean;
  /** It is alive, but peers do not reach it or it does not reach them: the same for a while. */
  readonly unreachable?: boolean;
  /** How it was reached when it was called back in this life: "directly", "by relay NAME". */
  readonly reached?: string;
  /** Why nobody has reached it, or not yet: it gets no work. */
  readonly unreached?: string;
  /** It relays for others, with so many bytes a second at most; 0: without a limit. */
  readonly relay?: { readonly bytesPerSecond: number };
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
  const { status, closed, unreachable, unreached, drained, barred } = record;
  return status === "online" && !closed && !unreachable && !unreached && !drained && !barred;
}

/** What is known of a machine's results; it outlives the PNode's own record. */
export interface StandingRecord {
  readonly pnode: PNodeId;
  /** Intervals found right, or final, since its last fault. */
  readonly right: number;
  /** Intervals of its own that were repeated, and how many it repeated for others. */
  readonly audited: number;
  readonly audits: number;
  readonly last?: { readonly wallMs: number; readonly story: string };
  readonly faults: readonly FaultRecord[];
  /** An operator vouches for it: it decides disputes. */
  readonly trusted?: boolean;
  /** Why it gets no work; empty reasons do not occur. */
  readonly barred?: {
    readonly kind: "doubt" | "quarantined" | "banned";
    readonly reason: string;
    readonly wallMs: number;
  };
  /** Numerics classes in which it computes other bits than the rest. */
  readonly excluded: readonly string[];
  /** Its next intervals are checked for sure: somebody could not show what it was sent. */
  readonly due: number;
  /** When it was last let back in after it had been barred. */
  readonly readmittedWallMs?: number;
}

export interface FaultRecord {
  readonly wallMs: number;
  readonly kind: FaultKind;
  /** How many intervals were found right before it. */
  readonly after: number;
  readonly story: string;
  /** Repeats it. */
  readonly command: string;
}

export type FaultKind = "hardware" | "class" | "lie" | "equivocation" | "silence";

/** One checkpoint interval of a session that is checked, from when the line passed it until it is final. */
export interface IntervalRecord {
  readonly session: SessionId;
  readonly from: number;
  readonly to: number;
  readonly turn: number;
  /** The line has not passed it: two ends or two owners contradict each other there. */
  readonly stuck?: string;
  /** Blob with all statements about it, which is what was drawn by; empty while it is stuck. */
  readonly statements: string;
  /** Of its last step. */
  readonly root: string;
  /** The draw, as anybody can verify it; base64. */
  readonly draw: string;
  readonly owners: Readonly<Record<string, PNodeId>>;
  readonly audits: Readonly<Record<string, AuditRecord>>;
  /** Where somebody was found wrong: everything above this line is computed again, in this turn. */
  readonly repair?: { readonly line: number; readonly turn: number; readonly because: string };
  readonly openedWallMs: number;
}

export interface AuditRecord {
  /** What is checked: more than one where owners contradict each other. */
  readonly stated: readonly Stated[];
  readonly tasks: readonly AuditTask[];
  /** All inputs are in the blob store. */
  readonly ready: boolean;
  readonly outcome?: AuditOutcome;
  /** Those whose results were wrong, and what was found about them. */
  readonly accused: readonly Accused[];
}

export interface AuditOutcome {
  /** `lost`: what went in is gone, and the session is one in which everything is checked: it is computed again. */
  readonly kind: "right" | "wrong" | "unchecked" | "lost";
  readonly by: "trusted" | "strangers" | "nobody";
  readonly reason: string;
  /** What is right (trust/statement.ts `resultOf`), if somebody found out. */
  readonly result: string;
  readonly wallMs: number;
}

export interface AuditTask {
  readonly pnode: PNodeId;
  /** `repeat`: by somebody whose result was wrong. `measure`: how far it was off. */
  readonly role: "audit" | "repeat" | "measure";
  readonly trusted: boolean;
  readonly sinceWallMs: number;
  /** For `measure`: the state to compare with; for `repeat`: whom it is about is the PNode itself. */
  readonly against?: string;
  readonly result?: string;
  readonly after?: string;
  readonly distance?: number;
  /** Why there will be no result. */
  readonly gaveUp?: string;
}

export interface Accused {
  readonly pnode: PNodeId;
  readonly of: "statement" | "audit" | "delivery";
  readonly result: string;
  /** The state that it came to, where it is stored. */
  readonly after: string;
  readonly verdict?: FaultKind | "cleared";
  readonly story?: string;
  /** Its standing says so by now. */
  readonly told?: boolean;
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

/** Which keys have spoken for an id, the present one last; only of those that were replaced. */
export interface IdentityRecord {
  readonly id: KeyId;
  readonly keys: readonly {
    readonly key: KeyId;
    readonly fromWallMs: number;
    /** Absent: it still does. */
    readonly untilWallMs?: number;
  }[];
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
  /** It relays tensors too. */
  readonly relay?: boolean;
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
  /** Whose key made it; absent where none was needed. */
  readonly owner?: string;
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

/** A chain of the ledger: written with its first block, so that all of them can be listed. Blocks are ledger/block.ts. */
export interface ChainRecord {
  readonly name: string;
  /** Whose budget a session's chain counts towards. */
  readonly owner: string;
}

/** What the sessions of one owner may spend together. */
export interface BudgetRecord {
  readonly owner: string;
  readonly credits: number;
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
  readonly budget: BudgetRecord;
  readonly job: JobRecord;
  readonly cohort: CohortRecord;
  readonly use: UseRecord;
  readonly identity: IdentityRecord;
  readonly interval: IntervalRecord;
  /** An interval in which somebody was found wrong, kept so that anybody can repeat it. */
  readonly conviction: IntervalRecord;
  readonly standing: StandingRecord;
  readonly provider: ProviderRecord;
  readonly instance: InstanceRecord;
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
  "budget",
  "cohort",
  "job",
  "use",
  "identity",
  "interval",
  "conviction",
  "standing",
  "provider",
  "instance",
];

/** As many as fit the width of a padded number. */
const headNumberMax = 999_999_999_999_999;

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
  identity: (id: string) => named<IdentityRecord>(`identity/${id}`),
  policy: () => named<PolicyRecord>("policy/join"),
  interval: (session: string, to: number) => named<IntervalRecord>(`interval/${session}/${padded(to)}`),
  conviction: (session: string, to: number, turn: number) =>
    named<IntervalRecord>(`conviction/${session}/${padded(to)}-${turn}`),
  standing: (pnode: string) => named<StandingRecord>(`standing/${pnode}`),
  invite: (id: string) => named<InviteRecord>(`invite/${id}`),
  orchestrator: (id: string) => named<OrchestratorRecord>(`orchestrator/${id}`),
  lease: (workload: string) => named<LeaseRecord>(`lease/${workload}`),
  metric: (session: string, step: number, writer: string) =>
    named<MetricRecord>(`metric/${session}/${padded(step)}-${writer}`),
  model: (name: string) => named<ModelRecord>(`model/${name}`),
  /** Create-only. */
  block: (chain: string, index: number) => named<Block>(`block/${chain}/${padded(index)}`),
  chain: (name: string) => named<ChainRecord>(`chain/${name}`),
  /** Create-only. Newer ones come first: stores list in one direction alone. */
  head: (number: number) => named<SignedHead>(`head/${padded(headNumberMax - number)}`),
  budget: (owner: string) => named<BudgetRecord>(`budget/${encodeURIComponent(owner) || "-"}`),
  job: (id: string) => named<JobRecord>(`job/${id}`),
  cohort: (name: string) => named<CohortRecord>(`cohort/${name}`),
  use: (owner: string) => named<UseRecord>(`use/${owner}`),
  provider: (name: string) => named<ProviderRecord>(`provider/${name}`),
  instance: (provider: string, id: string) => named<InstanceRecord>(`instance/${provider}/${id}`),
  event: (wallMs: number, writer: string) => `event/${padded(wallMs)}-${writer}`,
};

export const prefix = {
  networks: named<NetworkRecord>("network/"),
  sessions: named<SessionRecord>("session/"),
  replicas: named<ReplicaRecord>("replica/"),
  vnodes: named<VNodeRecord>("vnode/"),
  vnodesOf: (workload: string) => named<VNodeRecord>(`vnode/${workload}/`),
  stepsOf: (session: string) => named<StepRecord>(`step/${session}/`),
  intervals: named<IntervalRecord>("interval/"),
  intervalsOf: (session: string) => named<IntervalRecord>(`interval/${session}/`),
  convictions: named<IntervalRecord>("conviction/"),
  convictionsOf: (session: string) => named<IntervalRecord>(`conviction/${session}/`),
  standings: named<StandingRecord>("standing/"),
  pnodes: named<PNodeRecord>("pnode/"),
  rooms: named<RoomRecord>("room/"),
  orchestrators: named<OrchestratorRecord>("orchestrator/"),
  metrics: named<MetricRecord>("metric/"),
  metricsOf: (session: string) => named<MetricRecord>(`metric/${session}/`),
  models: named<ModelRecord>("model/"),
  blocksOf: (chain: string) => named<Block>(`block/${chain}/`),
  chains: named<ChainRecord>("chain/"),
  heads: named<SignedHead>("head/"),
  budgets: named<BudgetRecord>("budget/"),
  jobs: named<JobRecord>("job/"),
  cohorts: named<CohortRecord>("cohort/"),
  uses: named<UseRecord>("use/"),
  members: named<MemberRecord>("member/"),
  providers: named<ProviderRecord>("provider/"),
  instances: named<InstanceRecord>("instance/"),
  instancesOf: (provider: string) => named<InstanceRecord>(`instance/${provider}/`),
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
