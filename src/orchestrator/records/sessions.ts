// Records of what is placed as a whole: networks, trainings, served models and their replicas.

import type { JobId, NetworkId, ReplicaId, SessionId, Sha256, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { ToldRound } from "../../network/rounds.ts";
import type { SessionIdentity, SessionPolicy, SessionRequirements } from "../../network/settings/session.ts";
import type { WeightFormat } from "../../network/weight-format.ts";
import type { Certificate, DrawnInterval } from "./checking.ts";
import type { StoredState } from "./vnodes.ts";

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

/** By what was signed about the interval that ends with `to`. */
export interface ValidatedState extends BestState {
  readonly to: number;
}

/** What is placed as a whole and has VNodes. Placement, recovery, claims, leases and assignments know no more of it. */
export interface WorkloadRecord {
  readonly id: WorkloadId;
  /** Decides what is computed, and who can. */
  readonly identity: Pick<SessionIdentity, "definition" | "numerics" | "bits">;
  /** Without `replicas` every VNode has one owner. */
  readonly policy: Partial<Pick<SessionPolicy, "replicas" | "spread" | "assurance">>;
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
  /** Classes that it computed in before the present one, and up to which step each counts; absent: it had none. */
  readonly eras?: readonly { readonly class: string; readonly to: number }[];
  readonly stepRoot: string;
  /** Of a session that is elastic: what rounds from its line on consist of, repeated from their own records. */
  readonly rounds?: readonly ToldRound[];
  /** Of a session that is checked: everything up to here was, as its assurance asks. Never goes back. */
  readonly final?: number;
  /** Told with every line: what is checked, and whose inputs are kept for that. */
  readonly drawn?: readonly DrawnInterval[];
  /** The line at which somebody was last found wrong: more is checked for a while. */
  readonly alarm?: number;
  /** How many were found lying in it, each as often as the session went back for it: that is how long the alarm lasts. */
  readonly liars?: number;
  /** How often it was started again after it had rested or failed: whoever had sent something had let go of it by then; absent: never. */
  readonly restarts?: number;
  /** Where the present turn began: the line that the session last went back to. */
  readonly turnLine?: number;
  /** Whatever VNodes recorded above this line in turns before this one is void (turns.ts); absent: nothing is. */
  readonly voided?: { readonly turn: number; readonly line: number };
  /** How often it went back to a line because VNodes that share weights were parted. */
  readonly parted?: { readonly line: number; readonly times: number };
  /** The same because what was final came out otherwise when lost states were computed again. */
  readonly deviated?: { readonly line: number; readonly times: number };
  /** VNode-intervals below `final`, by who recomputed them. */
  readonly certificate?: Certificate;
  /** Whose validation loss is the least so far. */
  readonly best?: BestState;
  /** Of a session that is checked: the same of what is final. */
  readonly bestFinal?: BestState;
  /** Of a session that is checked: what was validated above `final`, as far as its states are kept; absent: nothing. */
  readonly validated?: readonly ValidatedState[];
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
  readonly policy: WorkloadRecord["policy"] & {
    /** A share of its answers is repeated by other machines. */
    readonly audit?: true;
  };
  /** Guesses beside its head; absent: nothing does. It decides no answer, so it is no part of the identity. */
  readonly draft?: ServedDraft;
}

/** A smaller model that guesses what another one says. */
export interface ServedDraft {
  /** What it was asked for by: a session or a model. */
  readonly source: string;
  readonly definition: Sha256;
  readonly states: Readonly<Record<string, StoredState>>;
  readonly weights?: WeightFormat;
}

/** What decides a replica's answers. */
export interface ReplicaIdentity extends Pick<SessionIdentity, "definition" | "numerics" | "bits"> {
  /** The weights, by VNode. */
  readonly states: Readonly<Record<string, StoredState>>;
  /** Kept in so few bits; absent: as they are. */
  readonly weights?: WeightFormat;
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
  /** Names of the adapters that it holds side by side, in their order; absent: none. */
  readonly adapters?: readonly string[];
  /** Which of its tokens' hidden states stand for a text; absent: the mean of all. */
  readonly pooling?: "last";
  readonly parameters: number;
  readonly context: number;
  readonly vocabulary: number;
  /** Kept in so few bits while it is served; absent: as they are. */
  readonly weights?: WeightFormat;
  /** Guesses beside it while it is served; absent: nothing does. */
  readonly draft?: ServedDraft;
  /** Those that serve it; none while it is stopped. */
  readonly replicas: readonly ReplicaId[];
  /** Replicas come and go by load, within bounds, and are made like this; absent: as many as were asked for. */
  readonly scaling?: ReplicaScaling;
  /** Replicas that get nothing new and end when nobody asks them any more. */
  readonly ending?: readonly { readonly id: ReplicaId; readonly sinceWallMs: number }[];
  readonly createdWallMs: number;
}

export interface ReplicaScaling extends Pick<ReplicaRecord, "policy" | "requirements" | "vnodes"> {
  readonly least: number;
  readonly most: number;
  readonly identity: Pick<ReplicaIdentity, "numerics" | "bits" | "weights">;
}
