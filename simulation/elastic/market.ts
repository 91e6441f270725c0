// What a day has: offers of machines, machines that were started, jobs that wait for them, and how the autoscaler sees these.

import type { PNodeId } from "../../src/core/ids.ts";
import type { InstanceRecord } from "../../src/orchestrator/records/providers.ts";
import type { Offer } from "../../src/providers/provider.ts";
import { demandOfMemory } from "../../src/scheduler/demand.ts";
import { type FleetNode, requirementsNone } from "../../src/scheduler/placement/types.ts";
import type { WaitingWork } from "../../src/scheduler/scale-types.ts";

export const gigabyte = 2 ** 30;
const plain = { cores: 8, memoryBytes: 5 * gigabyte, gpuMemoryBytes: 0, gpuType: "", region: "", most: 20 };

export interface Machine {
  readonly record: InstanceRecord;
  readonly readyMs: number;
  readonly never: boolean;
  isAlive: boolean;
  readonly jobs: Map<number, number>;
  idleSinceMs: number;
}

export interface Job {
  readonly id: number;
  readonly vnodes: number;
  readonly atMs: number;
  leftMs: number;
  on: Machine[] | undefined;
  waited: boolean;
}

export const offers: readonly Offer[] = [
  { ...plain, name: "liar", gpus: 0, pricePerHour: 0.5, spot: true, bootSeconds: 60 },
  { ...plain, name: "spot", gpus: 0, pricePerHour: 1.2, spot: true, bootSeconds: 120 },
  { ...plain, name: "sure", gpus: 0, pricePerHour: 4, spot: false, bootSeconds: 180 },
];
/** Of each machine of an offer, in an hour. */
export const lossOf: Readonly<Record<string, number>> = { liar: 0.2, spot: 0.3, sure: 0.005 };

export function used({ jobs }: Machine): number {
  return Array.from(jobs.values()).reduce((sum, count) => sum + count, 0);
}

const policy = { bits: 2, engine: "portable", numericsClass: "", requirements: requirementsNone };

export function workOf({ id, vnodes }: Job): WaitingWork {
  return { id: `job-${id}`, demand: demandOfMemory(Array.from({ length: vnodes }, () => gigabyte)), policy };
}

/** Four VNodes fit. */
export function nodeOf({ id, offer, status }: InstanceRecord, vnodes: number): FleetNode {
  const memoryBytes = 4.875 * gigabyte;
  return {
    ...{ id: id as PNodeId, owner: "", region: "", provider: "lab", trust: "", architecture: "x64", bits: 2 },
    ...{ numerics: [{ engine: "portable", class: "portable-2" }], gflops: 10, newcomer: false, cores: 8, memoryBytes },
    ...{ memoryFreeBytes: memoryBytes - vnodes * gigabyte, gpus: [], gpusFree: 0, pricePerHour: offer.pricePerHour },
    ...{
      reliability: 1,
      flapping: false,
      accepting: status === "joined",
      latencyMs: 1,
      bytesPerSecond: 1e6,
      hosts: new Map(),
    },
  };
}
