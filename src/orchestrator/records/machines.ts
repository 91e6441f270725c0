// Records of machines and of who may lend them: PNodes, the room that is claimed of them, orchestrators, members, invites.

import type { KeyId, OrchestratorId, PNodeId, Sha256 } from "../../core/ids.ts";
import type { Routes } from "../../protocol/routes/routes.ts";
import type { Room } from "../../scheduler/room.ts";
import type { Loads } from "../serving/loads.ts";

export type PNodeStatus = "online" | "leaving" | "lost" | "left" | "quarantined";

export interface GpuFacts {
  readonly model: string;
  readonly memoryBytes: number;
  readonly vendor: string;
  readonly driver?: string;
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
  /** Of its answers for served models; absent for one that does not say. */
  readonly answerBits?: number;
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
  /** When its owner last examined it and found nothing (dcnr doctor), as it says. */
  readonly examinedWallMs?: number;
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
  /** It says that it took VNodes over while no orchestrator was there: until room is claimed for these, none of it is free. */
  readonly uncounted?: true;
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
  /** What is asked of models there; absent: nothing. */
  readonly loads?: Loads;
}

export interface LeaseRecord {
  readonly holder: OrchestratorId;
  readonly incarnation: string;
  /** Grows with each takeover. */
  readonly token: number;
}
