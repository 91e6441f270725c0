// Room over time: what is free on each PNode now, what becomes free when those who run have had their time, and what is
// promised to whom. Answers whether a whole gang fits at a time, and when at the earliest. Pure; one per pass.

import type { PNodeId } from "../core/ids.ts";
import type { Held, PendingJob, RunningJob } from "./jobs.ts";
import { type ConstraintPolicy, classOf, suits } from "./placement/constraints.ts";
import type { FleetNode } from "./placement/types.ts";
import { lastBy, Profile } from "./profile.ts";

interface Machine {
  readonly node: FleetNode;
  readonly room: Profile;
  /** The same without what starts now; as `room` while nothing is held. */
  later?: Profile;
}

/** A gang's place: how much of which PNodes. */
export type Allocation = readonly Held[];

/** With more times than this the first that fits is searched by halves, which may miss an earlier one. */
const timesTriedMax = 24;
/** One that has passed its end still sits there: it is taken to end soon. */
const overtimeMs = 60_000;

export class Timeline {
  readonly #nowMs: number;
  readonly #machines: Machine[];
  readonly #byId = new Map<PNodeId, Machine>();
  readonly #times: number[];
  readonly #suiting = new Map<string, readonly (readonly Machine[])[]>();
  #effort = 0;

  constructor(nowMs: number, nodes: readonly FleetNode[], running: readonly RunningJob[]) {
    this.#nowMs = nowMs;
    // Small ones first, so that large ones stay whole for those who need them.
    const sorted = [...nodes].sort((a, b) => a.memoryBytes - b.memoryBytes || (a.id < b.id ? -1 : 1));
    this.#machines = sorted.map((node) => ({
      node,
      room: new Profile({ memoryBytes: node.memoryFreeBytes, gpus: node.gpusFree }),
    }));
    for (const machine of this.#machines) this.#byId.set(machine.node.id, machine);
    const times = new Set<number>();
    const known = running.filter(({ endMs }) => endMs < Number.POSITIVE_INFINITY);
    for (const { endMs, holds } of known.sort((a, b) => a.endMs - b.endMs)) {
      const atMs = Math.max(endMs, nowMs + overtimeMs);
      times.add(atMs);
      for (const held of holds) this.#byId.get(held.pnode)?.room.release(atMs, held);
    }
    this.#times = Array.from(times).sort((a, b) => a - b);
  }

  /** Where the whole gang fits from `atMs` on for all of its time; `freed` is counted as free already. */
  fit(job: PendingJob, atMs = this.#nowMs, freed: readonly Held[] = []): Allocation | undefined {
    if (!job.demand || job.demand.units.length === 0) return [];
    for (const machines of this.#suited(job.policy)) {
      const found = this.#fitOn(machines, job, atMs, freed);
      if (found) return found;
    }
    return undefined;
  }

  #fitOn(machines: readonly Machine[], job: PendingJob, atMs: number, freed: readonly Held[]): Allocation | undefined {
    const { gpus, gpuMemoryBytes, maxPricePerHour } = job.policy.requirements;
    const extra = freed.length > 0 ? sums(freed) : undefined;
    const used = new Map<Machine, { memoryBytes: number; left: number }>();
    let price = 0;
    for (const { memoryBytes, count } of job.demand?.units ?? []) {
      let left = count;
      for (const machine of machines) {
        let room = used.get(machine);
        if (!room) {
          if (maxPricePerHour > 0 && price + machine.node.pricePerHour > maxPricePerHour) continue;
          if (machine.node.memoryBytes < memoryBytes) continue;
          this.#effort += machine.room.steps;
          const free = machine.room.least(atMs, atMs + job.limitMs);
          const more = extra?.get(machine.node.id);
          if (gpus > 0 && fitting(machine.node, gpuMemoryBytes, free.gpus + (more?.gpus ?? 0)) < gpus) continue;
          room = { memoryBytes: 0, left: free.memoryBytes + (more?.memoryBytes ?? 0) };
        }
        const taken = memoryBytes > 0 ? Math.min(left, Math.floor(room.left / memoryBytes)) : left;
        if (taken <= 0) continue;
        if (!used.has(machine)) price += machine.node.pricePerHour;
        used.set(machine, room);
        room.memoryBytes += taken * memoryBytes;
        room.left -= taken * memoryBytes;
        left -= taken;
        if (left === 0) break;
      }
      if (left > 0) return undefined;
    }
    return Array.from(used, ([{ node }, room]) => ({ pnode: node.id, memoryBytes: room.memoryBytes, gpus }));
  }

  /** How much was looked at so far: steps in time of one PNode. */
  get effort(): number {
    return this.#effort;
  }

  /** The earliest time from which the whole gang fits, as far as ends are known; holds that room for it. */
  reserve(
    job: PendingJob,
    notBeforeMs = this.#nowMs,
  ): { readonly atMs: number; readonly allocation: Allocation } | undefined {
    const times = this.#times;
    let from = lastBy(times, Math.max(this.#nowMs, notBeforeMs - 1)) + 1;
    if (times.length - from > timesTriedMax) {
      let until = times.length;
      while (from < until) {
        const middle = (from + until) >> 1;
        if (this.fit(job, times[middle])) until = middle;
        else from = middle + 1;
      }
    }
    for (; from < times.length; from++) {
      const atMs = times[from] as number;
      const allocation = this.fit(job, atMs);
      if (!allocation) continue;
      this.hold(allocation, atMs, job.limitMs);
      return { atMs, allocation };
    }
    return undefined;
  }

  hold(allocation: Allocation, atMs: number, forMs: number): void {
    const toMs = atMs + forMs;
    for (const held of allocation) {
      const machine = this.#byId.get(held.pnode);
      if (!machine) continue;
      machine.later ??= machine.room.copy();
      if (atMs > this.#nowMs) machine.later.hold(atMs, toMs, held);
      machine.room.hold(atMs, toMs, held);
    }
    const index = lastBy(this.#times, toMs);
    if (allocation.length > 0 && this.#times[index] !== toMs) this.#times.splice(index + 1, 0, toMs);
  }

  /** If nobody else had anything, and everybody who could be lent were. */
  couldEver(job: PendingJob): boolean {
    if (!job.demand || job.demand.units.length === 0) return true;
    const emptied = this.#machines.map(({ node }) => ({
      node,
      room: new Profile({ memoryBytes: node.memoryBytes, gpus: node.gpus.length }),
    }));
    return classesOf(emptied, job.policy).some((own) => this.#fitOn(own, job, this.#nowMs, []) !== undefined);
  }

  /** Room that is free now and that a job of this length must not use, by PNode. */
  kept(limitMs: number): Map<PNodeId, { memoryBytes: number; gpus: number }> {
    const kept = new Map<PNodeId, { memoryBytes: number; gpus: number }>();
    for (const { node, later } of this.#machines) {
      if (!later) continue;
      const now = later.at(this.#nowMs);
      const over = later.least(this.#nowMs, this.#nowMs + limitMs);
      const memoryBytes = now.memoryBytes - over.memoryBytes;
      const gpus = now.gpus - over.gpus;
      if (memoryBytes > 0 || gpus > 0) kept.set(node.id, { memoryBytes, gpus });
    }
    return kept;
  }

  /** The PNodes that may host it at all, those of each numerics class apart, the largest class first. */
  #suited(policy: ConstraintPolicy): readonly (readonly Machine[])[] {
    const name = policyKey(policy);
    let known = this.#suiting.get(name);
    if (!known) {
      known = classesOf(this.#machines, policy);
      this.#suiting.set(name, known);
    }
    return known;
  }
}

function classesOf(machines: readonly Machine[], policy: ConstraintPolicy): readonly (readonly Machine[])[] {
  const suiting = machines.filter(({ node }) => suits(node, policy));
  const byClass = Map.groupBy(suiting, ({ node }) => classOf(node, policy.engine) ?? "");
  return Array.from(byClass.values()).sort((a, b) => b.length - a.length);
}

export function policyKey({ bits, engine, numericsClass, requirements }: ConstraintPolicy): string {
  return [bits, engine, numericsClass, ...Object.values(requirements)].join("|");
}

/** Those in use are taken to be the largest. */
function fitting(node: FleetNode, memoryBytes: number, free: number): number {
  const large = node.gpus.filter((memory) => memory >= memoryBytes).length;
  return Math.max(0, large - (node.gpus.length - free));
}

function sums(freed: readonly Held[]): Map<PNodeId, { memoryBytes: number; gpus: number }> {
  const byPNode = new Map<PNodeId, { memoryBytes: number; gpus: number }>();
  for (const { pnode, memoryBytes, gpus } of freed) {
    const sum = byPNode.get(pnode) ?? { memoryBytes: 0, gpus: 0 };
    byPNode.set(pnode, { memoryBytes: sum.memoryBytes + memoryBytes, gpus: sum.gpus + gpus });
  }
  return byPNode;
}
