// Records of VNodes: who owns them, what they have stored, how far their workloads have come.

import type { PNodeId, SessionId, Sha256, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { Stated } from "./checking.ts";

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
  /** In which it computes, where each lane has its own class. */
  readonly class?: string;
  /** Of a session that is checked: the life of the VNode that it last told of, and whether it is slow to store what audits need. */
  readonly told?: { readonly life: string; readonly isStoring: boolean };
}

export interface StoredState {
  readonly hash: Sha256;
  readonly bytes: number;
  /** The session's when it was recorded; absent: 0. */
  readonly turn?: number;
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
  /** What is recorded in an earlier turn of the session is void here (turns.ts); absent: 0. */
  readonly turn?: number;
  /** Hash of the state after each step above the recovery line. */
  readonly stepHashes: Readonly<Record<string, string>>;
  /** PNodes on which it failed at its present place in the run, and why. */
  readonly failures: readonly {
    readonly pnode: PNodeId;
    readonly detail: string;
    /** The PNode had no room for it, which is no fault of the VNode and passes. */
    readonly refusedWallMs?: number;
    /** It was not for want of room: the PNode had not kept what others needed. */
    readonly isLapse?: true;
  }[];
  /** Who brought it to each step that became durable, the last first, until the ledger has paid for the steps up to there. */
  readonly work?: Readonly<Record<string, readonly PNodeId[]>>;
  /** On GPUs: the class in which it is computed now, a space, and what its first owner there came to in its graphs on fixed feeds. */
  readonly rounding?: string;
  /** What it needs of its host: copied from the plan, so that whoever counts capacity need not compile. */
  readonly memoryBytes: number;
  /** One training step: forward and backward of a whole batch. */
  readonly flops: number;
}

/** The roots of the steps after the line before, up to this line. Replaced only once the session has taken it back. */
export interface StepRecord {
  readonly session: SessionId;
  readonly line: number;
  /** The session's when it was written; absent: 0. */
  readonly turn?: number;
  readonly roots: readonly { readonly step: number; readonly root: Sha256 }[];
}

/** Create-only: numbers that PNodes told, in the order in which they came. */
export interface MetricRecord {
  readonly session: string;
  readonly points: readonly (readonly [name: string, step: number, value: number, vnode: string])[];
}
