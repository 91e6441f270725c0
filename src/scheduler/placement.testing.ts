// Random fleets and plans for tests and benchmarks of placement, from a seed.

import type { PNodeId, VNodeId } from "../core/ids.ts";
import type { FleetNode, PlacementPlan, PlacementVNode, Policy } from "./placement/types.ts";
import { requirementsNone } from "./placement/types.ts";

const gigabyte = 2 ** 30;

/** A small generator with a seed; quality does not matter here. */
export function seeded(seed: number): () => number {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function node(id: string, changes: Partial<FleetNode> = {}): FleetNode {
  return {
    id: id as PNodeId,
    owner: id,
    region: "eu",
    provider: "home",
    trust: "untrusted",
    architecture: "x64",
    bits: 1,
    numerics: [{ engine: "native", class: "avx2" }],
    gflops: 50,
    newcomer: false,
    cores: 4,
    memoryBytes: 8 * gigabyte,
    memoryFreeBytes: 8 * gigabyte,
    gpus: [],
    gpusFree: 0,
    pricePerHour: 0,
    reliability: 1,
    flapping: false,
    accepting: true,
    latencyMs: 0.1,
    bytesPerSecond: 1e9,
    hosts: new Map(),
    ...changes,
  };
}

export function vnode(id: string, changes: Partial<PlacementVNode> = {}): PlacementVNode {
  return { id: id as VNodeId, flops: 1e9, memoryBytes: 64 << 20, gpus: 0, ...changes };
}

export function chain(vnodes: readonly PlacementVNode[], edgeBytes = 1_000, workload = "s1"): PlacementPlan {
  const edges = vnodes
    .slice(1)
    .map((to, i) => ({ from: (vnodes[i] as PlacementVNode).id, to: to.id, bytes: edgeBytes }));
  return { workload, vnodes, edges, colocations: [] };
}

export function policy(changes: Partial<Policy> = {}): Policy {
  return {
    bits: 1,
    engine: "native",
    numericsClass: "",
    requirements: requirementsNone,
    copies: 1,
    current: new Map(),
    avoid: new Map(),
    holdsData: new Set(),
    ...changes,
  };
}

/** A fleet as volunteers make it: many speeds, some GPUs, some regions, two numerics classes. */
export function volunteers(count: number, random: () => number): FleetNode[] {
  return Array.from({ length: count }, (_, i) => {
    const gpus = random() < 0.4 ? 1 + Math.floor(random() * 4) : 0;
    const gpuMemory = [8, 16, 24][Math.floor(random() * 3)] as number;
    const memoryBytes = (4 + Math.floor(random() * 60)) * gigabyte;
    return node(`n${String(i).padStart(6, "0")}`, {
      owner: `owner${Math.floor(random() * count)}`,
      region: ["eu", "us", "asia"][Math.floor(random() * 3)] as string,
      numerics: [{ engine: "native", class: random() < 0.7 ? "avx2" : "avx512" }],
      gflops: 20 + Math.floor(random() * 400),
      cores: 2 + Math.floor(random() * 30),
      memoryBytes,
      memoryFreeBytes: memoryBytes,
      gpus: Array.from({ length: gpus }, () => gpuMemory * gigabyte),
      gpusFree: gpus,
    });
  });
}
