// Fleet totals by kind and their use over the last hour.

import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment } from "../fleet/attached/attachment.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { prefix } from "../records/store-keys.ts";

export interface CapacityOfKind {
  readonly kind: string;
  readonly total: number;
  readonly used: number;
  readonly free: number;
}

export interface UtilisationPoint {
  readonly wallMs: bigint;
  readonly pnodes: number;
  readonly vnodes: number;
  readonly load: number;
  readonly memoryShare: number;
}

const sampleIntervalMs = 10_000;
const pointsKept = 360;

export class Utilisation {
  readonly #context: Context;
  readonly #capacity: Capacity;
  readonly #attachments: ReadonlyMap<PNodeId, Attachment>;
  readonly history: UtilisationPoint[] = [];

  constructor(context: Context, capacity: Capacity, attachments: ReadonlyMap<PNodeId, Attachment>) {
    this.#context = context;
    this.#capacity = capacity;
    this.#attachments = attachments;
    context.tasks.every("the sample of utilisation", sampleIntervalMs, () => this.#sample());
  }

  totals(): CapacityOfKind[] {
    const sums = new Map<string, { total: number; free: number }>();
    const add = (kind: string, total: number, free: number) => {
      const sum = sums.get(kind) ?? { total: 0, free: 0 };
      sums.set(kind, { total: sum.total + total, free: sum.free + Math.max(0, free) });
    };
    for (const kind of ["pnodes", "cores", "memory", "gpus", "gpu_memory", "gflops"]) add(kind, 0, 0);
    for (const node of this.#capacity.fleet.nodes()) {
      const idle = node.hosts.size === 0;
      const vnodes = this.#capacity.vnodesOn(node.id).size;
      const coresFree = Math.max(0, node.cores - vnodes);
      add("pnodes", 1, idle ? 1 : 0);
      add("cores", node.cores, coresFree);
      add("memory", node.memoryBytes, node.memoryFreeBytes);
      add("gpus", node.gpus.length, node.gpusFree);
      const gpuMemory = node.gpus.reduce((sum, memory) => sum + memory, 0);
      add("gpu_memory", gpuMemory, node.gpus.length === 0 ? 0 : (gpuMemory * node.gpusFree) / node.gpus.length);
      add("gflops", node.gflops, node.gflops * (coresFree / Math.max(1, node.cores)));
    }
    return Array.from(sums, ([kind, { total, free }]) => ({ kind, total, used: total - free, free }));
  }

  #sample(): void {
    const memory = this.totals().find((one) => one.kind === "memory");
    let load = 0;
    let vnodes = 0;
    for (const attachment of this.#attachments.values()) load += Math.min(1, Math.max(0, attachment.load));
    for (const pnode of this.#context.mirror.under(prefix.pnodes)) vnodes += this.#capacity.vnodesOn(pnode.id).size;
    this.history.push({
      wallMs: BigInt(Math.round(this.#context.world.clock.wallMs())),
      pnodes: this.#capacity.fleet.size,
      vnodes,
      load: load / Math.max(1, this.#attachments.size),
      memoryShare: memory && memory.total > 0 ? memory.used / memory.total : 0,
    });
    if (this.history.length > pointsKept) this.history.shift();
  }
}
