// Where each record is in the store: keys that know what is under them, and which kinds every orchestrator keeps in memory. All
// state that must outlive a process is in these records; heartbeats, suspicion and watchers live in memory.

import { isReplicaId } from "../../core/ids.ts";
import { type DatasetRecord, datasetKey } from "../../data/datasets.ts";
import type { Block } from "../ledger/block.ts";
import type { SignedHead } from "../ledger/heads.ts";
import type { BudgetRecord, ChainRecord } from "./accounts.ts";
import type { MachineDay, NetworkDay } from "./availability.ts";
import type { AnswerChecksRecord, FindingRecord, IntervalRecord, StandingRecord } from "./checking.ts";
import type { AnswersRecord, CohortRecord, DataWorkRecord, JobRecord, UseRecord } from "./jobs.ts";
import type {
  IdentityRecord,
  InviteRecord,
  LeaseRecord,
  MemberRecord,
  OrchestratorRecord,
  PNodeRecord,
  PolicyRecord,
  RoomRecord,
} from "./machines.ts";
import type { InstanceRecord, ProviderRecord } from "./providers.ts";
import type { ClosingRecord, RoundRecord } from "./rounds.ts";
import type { ModelRecord, NetworkRecord, ReplicaRecord, SessionRecord, WorkloadRecord } from "./sessions.ts";
import type { StudyRecord, TrialRecord } from "./studies.ts";
import type { MetricRecord, StepRecord, VNodeRecord } from "./vnodes.ts";

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
  readonly work: DataWorkRecord;
  readonly study: StudyRecord;
  readonly trial: TrialRecord;
  readonly cohort: CohortRecord;
  readonly use: UseRecord;
  readonly identity: IdentityRecord;
  readonly interval: IntervalRecord;
  /** An interval in which somebody was found wrong, kept so that anybody can repeat it. */
  readonly conviction: IntervalRecord;
  readonly standing: StandingRecord;
  readonly checks: AnswerChecksRecord;
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
  "work",
  "study",
  "trial",
  "use",
  "identity",
  "interval",
  "conviction",
  "standing",
  "checks",
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
  /** Create-only, as is the next. */
  round: (session: string, round: number) => named<RoundRecord>(`round/${session}/${padded(round)}`),
  closing: (session: string, round: number) => named<ClosingRecord>(`closing/${session}/${padded(round)}`),
  pnode: (id: string) => named<PNodeRecord>(`pnode/${id}`),
  room: (pnode: string) => named<RoomRecord>(`room/${pnode}`),
  member: (pnode: string) => named<MemberRecord>(`member/${pnode}`),
  identity: (id: string) => named<IdentityRecord>(`identity/${id}`),
  policy: () => named<PolicyRecord>("policy/join"),
  interval: (session: string, to: number) => named<IntervalRecord>(`interval/${session}/${padded(to)}`),
  conviction: (session: string, to: number, turn: number) =>
    named<IntervalRecord>(`conviction/${session}/${padded(to)}-${turn}`),
  standing: (pnode: string) => named<StandingRecord>(`standing/${pnode}`),
  checks: (replica: string) => named<AnswerChecksRecord>(`checks/${replica}`),
  /** Create-only. Newer ones come last. */
  finding: (wallMs: number, id: string) => named<FindingRecord>(`finding/${padded(wallMs)}-${id}`),
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
  /** Create-only. */
  dataWork: (job: string) => named<DataWorkRecord>(`work/${job}`),
  answers: (job: string, piece: number) => named<AnswersRecord>(`answers/${job}/${padded(piece)}`),
  study: (id: string) => named<StudyRecord>(`study/${id}`),
  trial: (study: string, number: number) => named<TrialRecord>(`trial/${study}/${padded(number)}`),
  cohort: (name: string) => named<CohortRecord>(`cohort/${name}`),
  use: (owner: string) => named<UseRecord>(`use/${owner}`),
  provider: (name: string) => named<ProviderRecord>(`provider/${name}`),
  instance: (provider: string, id: string) => named<InstanceRecord>(`instance/${provider}/${id}`),
  machineDay: (day: string, pnode: string) => named<MachineDay>(`availability/${day}/${pnode}`),
  networkDay: (day: string) => named<NetworkDay>(`availability/${day}/network`),
  event: (wallMs: number, writer: string) => `event/${padded(wallMs)}-${writer}`,
};

export const prefix = {
  networks: named<NetworkRecord>("network/"),
  sessions: named<SessionRecord>("session/"),
  replicas: named<ReplicaRecord>("replica/"),
  vnodes: named<VNodeRecord>("vnode/"),
  vnodesOf: (workload: string) => named<VNodeRecord>(`vnode/${workload}/`),
  stepsOf: (session: string) => named<StepRecord>(`step/${session}/`),
  roundsOf: (session: string) => named<RoundRecord>(`round/${session}/`),
  closingsOf: (session: string) => named<ClosingRecord>(`closing/${session}/`),
  intervals: named<IntervalRecord>("interval/"),
  intervalsOf: (session: string) => named<IntervalRecord>(`interval/${session}/`),
  convictions: named<IntervalRecord>("conviction/"),
  convictionsOf: (session: string) => named<IntervalRecord>(`conviction/${session}/`),
  standings: named<StandingRecord>("standing/"),
  checks: named<AnswerChecksRecord>("checks/"),
  findings: named<FindingRecord>("finding/"),
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
  answersOf: (job: string) => named<AnswersRecord>(`answers/${job}/`),
  studies: named<StudyRecord>("study/"),
  trialsOf: (study: string) => named<TrialRecord>(`trial/${study}/`),
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
