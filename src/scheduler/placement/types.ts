// What placement takes and gives, as plain data: `place` is a pure function of these, so the same fleet and
// plan always give the same decisions, on every orchestrator.

import type { PNodeId, VNodeId } from "../../core/ids.ts";

export interface PlacementVNode {
  readonly id: VNodeId;
  /** Of one step. */
  readonly flops: number;
  readonly memoryBytes: number;
  /** Reserved for this VNode alone. */
  readonly gpus: number;
}

export interface PlacementEdge {
  readonly from: VNodeId;
  readonly to: VNodeId;
  /** Both directions, of one step. */
  readonly bytes: number;
}

export interface PlacementPlan {
  readonly workload: string;
  /** In topological order: neighbours in the list are neighbours in the pipeline. */
  readonly vnodes: readonly PlacementVNode[];
  readonly edges: readonly PlacementEdge[];
  /** VNodes that must share a PNode. */
  readonly colocations: readonly (readonly VNodeId[])[];
  /** VNodes that share weights: whoever checks one of them may have to repeat all. */
  readonly tied?: readonly (readonly VNodeId[])[];
  /** Parts that need not be here together, the most important first: each gets room for all that it lacks, or none. Absent: it is one. */
  readonly parts?: readonly (readonly VNodeId[])[];
}

/** The engine of workloads whose parts compute in classes of their own, of whatever engine. */
export const mixedEngine = "mixed";

/** Whether such a part may compute by it. Exact numerics are one class for all machines, and slower than the portable ones that all of them have. */
export function isMixable(engine: string): boolean {
  return engine !== "exact";
}

export interface FleetNode {
  readonly id: PNodeId;
  readonly owner: string;
  /** The /24 or /48 that it calls from; absent where that says nothing. */
  readonly network?: string;
  readonly region: string;
  readonly provider: string;
  readonly trust: string;
  readonly architecture: string;
  /** Version of the bits that it computes. */
  readonly bits: number;
  /** Of the answers that it gives for served models; absent: it does not say. */
  readonly answerBits?: number;
  readonly numerics: readonly { readonly engine: string; readonly class: string }[];
  /** Measured speed that its owner lets be used; of a newcomer, as much of its claim as is believed. */
  readonly gflops: number;
  /** It has not worked enough yet to be relied on: it gets a small share of a workload where others can do it. */
  readonly newcomer: boolean;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly memoryFreeBytes: number;
  /** Memory of each GPU, the largest first. */
  readonly gpus: readonly number[];
  /** How many of them no workload has reserved. */
  readonly gpusFree: number;
  readonly pricePerHour: number;
  /** 0 to 1. */
  readonly reliability: number;
  /** Came and went several times within a minute. */
  readonly flapping: boolean;
  /** False while its owner's hours or limits say no, and while it leaves. */
  readonly accepting: boolean;
  readonly latencyMs: number;
  readonly bytesPerSecond: number;
  /** Sessions whose VNodes it hosts, with their number. */
  readonly hosts: ReadonlyMap<string, number>;
}

/** Of the way between two PNodes. */
export interface LinkSpeed {
  readonly latencyMs: number;
  readonly bytesPerSecond: number;
}

export interface Requirements {
  /** Each PNode that takes part reserves this many for the workload. */
  readonly gpus: number;
  readonly gpuMemoryBytes: number;
  readonly memoryBytes: number;
  readonly cpus: number;
  /** Empty for anywhere. */
  readonly region: string;
  /** Where the machine comes from; empty for anywhere. */
  readonly provider: string;
  /** The least level; empty for any. */
  readonly trust: string;
  /** Empty for any. */
  readonly architecture: string;
  /** Of all PNodes that take part together; 0 for no bound. */
  readonly maxPricePerHour: number;
}

/** How far a workload's results are checked. */
export type Checked = "sampled" | "checked" | "proven";

export interface Policy {
  /** Version of the bits of the workload. */
  readonly bits: number;
  /** It answers: `bits` is the version of answers. */
  readonly answers?: true;
  readonly engine: string;
  /** Empty at the first placement, which chooses one. */
  readonly numericsClass: string;
  /** Of a mixed workload in parts, by their places: the class in which each is, or has to be; absent: one is chosen for it. */
  readonly classes?: readonly PartClass[];
  readonly requirements: Requirements;
  /** Its results are checked: machines are proven by results, not by work alone, and those who may check keep room for it. */
  readonly checked?: Checked;
  /** Copies of each VNode, the primary included; they go to different owners. */
  readonly copies: number;
  /** PNodes to use at least, where there are that many. */
  readonly spread?: number;
  /** Where VNodes are and stay, primary first. */
  readonly current: ReadonlyMap<VNodeId, readonly PNodeId[]>;
  /** PNodes on which a VNode failed. */
  readonly avoid: ReadonlyMap<VNodeId, ReadonlySet<PNodeId>>;
  /** PNodes on which some VNodes cannot be at all: those have another class. */
  readonly barred?: { readonly vnodes: ReadonlySet<VNodeId>; readonly pnodes: ReadonlySet<PNodeId> };
  /** PNodes that already have the workload's data in their cache. */
  readonly holdsData: ReadonlySet<PNodeId>;
  /** Says when a resource that others use becomes free; empty if nobody knows. */
  readonly nextFree?: (kind: "gpus" | "memory") => string;
}

export interface PartClass {
  /** Tried first. */
  readonly class?: string | undefined;
  /** No other will do. */
  readonly isBound: boolean;
}

export interface Decision {
  readonly vnode: VNodeId;
  /** 0 for the primary. */
  readonly copy: number;
  readonly pnode: PNodeId;
  readonly reason: string;
  /** Of a mixed workload: the class in which it computes there. */
  readonly class?: string;
}

export interface Unplaced {
  readonly vnode: VNodeId;
  readonly copy: number;
  readonly reason: string;
}

export interface Placement {
  /** Only what is new; what stays is not repeated. */
  readonly decisions: readonly Decision[];
  readonly unplaced: readonly Unplaced[];
  readonly numericsClass: string;
  /** Compute time of the slowest PNode in one step, what stays included. */
  readonly slowestMs: number;
  /** VNodes that have a place, beside which there is no room for the rest of their group. */
  readonly torn?: readonly VNodeId[];
}

export interface Scheduled extends Placement {
  /** VNodes that have to leave their places first: then there is room for all, their groups being together elsewhere. */
  readonly release?: readonly VNodeId[];
}

export const requirementsNone: Requirements = {
  gpus: 0,
  gpuMemoryBytes: 0,
  memoryBytes: 0,
  cpus: 0,
  region: "",
  provider: "",
  trust: "",
  architecture: "",
  maxPricePerHour: 0,
};

const trustLevels = ["untrusted", "known", "trusted"];

export function trustLevel(trust: string): number {
  return Math.max(0, trustLevels.indexOf(trust));
}
