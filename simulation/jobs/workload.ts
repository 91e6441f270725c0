// Fleets and streams of jobs from a seed, for queue worlds and for the benchmark of waits.

import type { PNodeId } from "../../src/core/ids.ts";
import type { JobClass, PendingJob } from "../../src/scheduler/jobs.ts";
import { type FleetNode, requirementsNone } from "../../src/scheduler/placement/types.ts";
import { node, seeded } from "../../src/scheduler/placement.testing.ts";

export const megabyte = 2 ** 20;
const unitBytes = 100 * megabyte;
const minute = 60_000;

/** A job with what nobody knows before: how long it really takes. */
export interface SimulatedJob {
  readonly job: PendingJob;
  readonly timeMs: number;
}

/** PNodes with room for 1 to 8 VNodes. */
export function fleetOf(count: number, seed: number): FleetNode[] {
  const random = seeded(seed);
  return Array.from({ length: count }, (_, index) => {
    const room = [1, 1, 2, 4, 8][Math.floor(random() * 5)] as number;
    const memoryBytes = room * unitBytes;
    return node(`p${String(index).padStart(4, "0")}`, { memoryBytes, memoryFreeBytes: memoryBytes });
  });
}

export const capacityOf = (nodes: readonly FleetNode[]) =>
  nodes.reduce((sum, { memoryBytes }) => sum + memoryBytes / unitBytes, 0);

export interface WorkloadOptions {
  readonly count: number;
  readonly capacity: number;
  readonly hours: number;
  /** Work that comes, as a share of what the fleet can do meanwhile. */
  readonly load: number;
  readonly seed: number;
  readonly owners?: number;
  readonly queues?: readonly string[];
  readonly largest?: number;
}

/** Half of the jobs have one VNode, some have dozens; times are log-normal, limits up to four times longer. */
export function workloadOf(options: WorkloadOptions): SimulatedJob[] {
  const { count, capacity, hours, load, seed, owners = 8, queues = ["default"], largest = 64 } = options;
  const random = seeded(seed);
  const normal = () => Math.sqrt(-2 * Math.log(random() + 1e-12)) * Math.cos(2 * Math.PI * random());
  const drawn = Array.from({ length: count }, (_, index) => {
    const size = random();
    const vnodes =
      size < 0.5 ? 1 : size < 0.8 ? 2 ** (1 + Math.floor(random() * 3)) : 2 ** (3 + Math.floor(random() * 4));
    const timeMs = Math.max(0.5, Math.exp(Math.log(15) + 1.2 * normal())) * minute;
    const owner = random() < 0.5 ? 0 : Math.floor(random() * owners);
    const draw = random();
    const jobClass: JobClass = draw < 0.1 ? "urgent" : draw < 0.6 ? "normal" : "low";
    return {
      index,
      vnodes: Math.min(vnodes, largest),
      timeMs,
      limitMs: timeMs * (1 + 3 * random() * random()),
      owner,
      jobClass,
    };
  });
  const work = drawn.reduce((sum, { vnodes, timeMs }) => sum + vnodes * timeMs, 0);
  const scale = (capacity * hours * 60 * minute * load) / work;
  let submittedMs = 0;
  const gapMs = (hours * 60 * minute) / count;
  return drawn.map(({ index, vnodes, timeMs, limitMs, owner, jobClass }): SimulatedJob => {
    submittedMs += -Math.log(random() + 1e-12) * gapMs;
    return {
      timeMs: Math.ceil(timeMs * scale),
      job: {
        id: `j${String(index).padStart(5, "0")}`,
        owner: `owner${owner}`,
        queue: queues[owner % queues.length] as string,
        class: jobClass,
        submittedMs,
        limitMs: Math.ceil(limitMs * scale) + 1,
        demand: { units: [{ memoryBytes: unitBytes, count: vnodes }], vnodes },
        policy: { bits: 1, engine: "native", numericsClass: "", requirements: requirementsNone },
        amounts: { cores: vnodes, gpus: 0, memoryBytes: vnodes * unitBytes, jobs: 1 },
        needs: [],
      },
    };
  });
}

/** As a queue without classes, owners or shares sees them. */
export function asEqual({ job, timeMs }: SimulatedJob): SimulatedJob {
  return { timeMs, job: { ...job, owner: "all", queue: "default", class: "normal" } };
}

export const pnodeId = (id: string) => id as PNodeId;
