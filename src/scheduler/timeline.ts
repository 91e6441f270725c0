// Room over time: what is free on each PNode now, what becomes free when those who run have had their time, and what is
// promised to whom. Answers whether a whole gang fits at a time, and when at the earliest. Pure; one per pass.

import type { PNodeId } from "../core/ids.ts";
import type { Held, PendingJob, RunningJob } from "./jobs.ts";
import { type ConstraintPolicy, classOf, suits } from "./placement/constraints.ts";
import type { FleetNode } from "./placement/types.ts";

interface Release {
  readonly atMs: number;
  readonly memoryBytes: number;
  readonly gpus: number;
}

interface Promised extends Release {
  readonly toMs: number;
}

interface Machine {
  readonly node: FleetNode;
  /** Sums of all that is released until then, by time. */
  readonly releases: Release[];
  readonly promised: Promised[];
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

  constructor(nowMs: number, nodes: readonly FleetNode[], running: readonly RunningJob[]) {
    this.#nowMs = nowMs;
    // Small ones first, so that large ones stay whole for those who need them.
    const sorted = [...nodes].sort((a, b) => a.memoryBytes - b.memoryBytes || (a.id < b.id ? -1 : 1));
    this.#machines = sorted.map((node) => ({ node, releases: [], promised: [] }));
    for (const machine of this.#machines) this.#byId.set(machine.node.id, machine);
    const times = new Set<number>();
    const known = running.filter(({ endMs }) => endMs < Number.POSITIVE_INFINITY);
    for (const { endMs, holds } of known.sort((a, b) => a.endMs - b.endMs)) {
      const atMs = Math.max(endMs, nowMs + overtimeMs);
      times.add(atMs);
      for (const held of holds) this.#release(held, atMs);
    }
    this.#times = Array.from(times).sort((a, b) => a - b);
  }

  #release({ pnode, memoryBytes, gpus }: Held, atMs: number): void {
    const releases = this.#byId.get(pnode)?.releases;
    const before = releases?.at(-1);
    releases?.push({ atMs, memoryBytes: (before?.memoryBytes ?? 0) + memoryBytes, gpus: (before?.gpus ?? 0) + gpus });
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
          const free = this.#freeOver(machine, atMs, atMs + job.limitMs);
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

  /** The earliest time from which the whole gang fits, as far as ends are known; holds that room for it. */
  reserve(job: PendingJob): { readonly atMs: number; readonly allocation: Allocation } | undefined {
    const ends = this.#machines.flatMap(({ promised }) => promised.map(({ toMs }) => toMs));
    const times = Array.from(new Set([...this.#times, ...ends]))
      .filter((atMs) => atMs > this.#nowMs)
      .sort((a, b) => a - b);
    let from = 0;
    if (times.length > timesTriedMax) {
      let until = times.length;
      while (from < until) {
        const middle = (from + until) >> 1;
        if (this.fit(job, times[middle])) until = middle;
        else from = middle + 1;
      }
    }
    for (const atMs of times.slice(from)) {
      const allocation = this.fit(job, atMs);
      if (!allocation) continue;
      this.hold(allocation, atMs, job.limitMs);
      return { atMs, allocation };
    }
    return undefined;
  }

  hold(allocation: Allocation, atMs: number, forMs: number): void {
    for (const { pnode, memoryBytes, gpus } of allocation)
      this.#byId.get(pnode)?.promised.push({ atMs, toMs: atMs + forMs, memoryBytes, gpus });
  }

  /** If nobody else had anything, and everybody who could be lent were. */
  couldEver(job: PendingJob): boolean {
    if (!job.demand || job.demand.units.length === 0) return true;
    const emptied = this.#machines.map(({ node }) => ({
      node: { ...node, memoryFreeBytes: node.memoryBytes, gpusFree: node.gpus.length },
      releases: [],
      promised: [],
    }));
    return classesOf(emptied, job.policy).some((own) => this.#fitOn(own, job, this.#nowMs, []) !== undefined);
  }

  /** Room that is free now and that a job of this length must not use, by PNode. */
  kept(limitMs: number): Map<PNodeId, { memoryBytes: number; gpus: number }> {
    const kept = new Map<PNodeId, { memoryBytes: number; gpus: number }>();
    for (const machine of this.#machines) {
      if (machine.promised.length === 0) continue;
      const later = machine.promised.filter(({ atMs }) => atMs > this.#nowMs);
      if (later.length === 0) continue;
      const now = freeAt({ ...machine, promised: later }, this.#nowMs);
      const over = this.#freeOver({ ...machine, promised: later }, this.#nowMs, this.#nowMs + limitMs);
      const memoryBytes = now.memoryBytes - over.memoryBytes;
      const gpus = now.gpus - over.gpus;
      if (memoryBytes > 0 || gpus > 0) kept.set(machine.node.id, { memoryBytes, gpus });
    }
    return kept;
  }

  /** The least that is free in the whole stretch. */
  #freeOver(machine: Machine, fromMs: number, toMs: number): { memoryBytes: number; gpus: number } {
    const least = freeAt(machine, fromMs);
    for (const { atMs } of machine.promised) {
      if (atMs <= fromMs || atMs >= toMs) continue;
      const then = freeAt(machine, atMs);
      least.memoryBytes = Math.min(least.memoryBytes, then.memoryBytes);
      least.gpus = Math.min(least.gpus, then.gpus);
    }
    return least;
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

function freeAt({ node, releases, promised }: Machine, atMs: number): { memoryBytes: number; gpus: number } {
  let memoryBytes = node.memoryFreeBytes;
  let gpus = node.gpusFree;
  let until: Release | undefined;
  for (const release of releases) {
    if (release.atMs > atMs) break;
    until = release;
  }
  memoryBytes += until?.memoryBytes ?? 0;
  gpus += until?.gpus ?? 0;
  for (const one of promised)
    if (one.atMs <= atMs && atMs < one.toMs) {
      memoryBytes -= one.memoryBytes;
      gpus -= one.gpus;
    }
  return { memoryBytes, gpus };
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
