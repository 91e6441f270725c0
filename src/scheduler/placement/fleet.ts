// The fleet as placement sees it: all PNodes by id and, for speed, in pools of near equals. No hard constraint
// tells the nodes of a pool apart but the exact memory, so placing costs little however large the fleet is.

import type { PNodeId } from "../../core/ids.ts";
import type { FleetNode, Link } from "./types.ts";

export interface Pool {
  readonly name: string;
  /** One node of it: answers every question about region, trust, architecture, numerics and GPUs. */
  example: FleetNode;
  /** Fastest first, ties by id. */
  readonly nodes: FleetNode[];
  /** All of its nodes expect at most this. */
  readonly gflopsMost: number;
  /** All of its nodes have less than this free. */
  readonly memoryBelowBytes: number;
}

export type MeasuredLinks = (from: PNodeId, to: PNodeId) => Link | undefined;

/** Speeds within 2^(1/4) share a pool. */
const speedStepsPerDoubling = 4;
/** A home connection, as long as nothing was measured. */
const assumedBytesPerSecond = 10 << 20;
const assumedFarLatencyMs = 40;

export class Fleet {
  readonly #nodes = new Map<PNodeId, FleetNode>();
  readonly #pools = new Map<string, Pool>();
  readonly #poolOf = new Map<PNodeId, Pool>();
  readonly #measured: MeasuredLinks;
  /** All pools, fastest first. */
  readonly #ordered: Pool[] = [];
  #newcomers = 0;
  /** How many nodes compute in each class, by engine. */
  readonly #classes = new Map<string, Map<string, number>>();

  constructor(nodes: Iterable<FleetNode> = [], measured: MeasuredLinks = () => undefined) {
    this.#measured = measured;
    for (const node of nodes) this.set(node);
  }

  get size(): number {
    return this.#nodes.size;
  }

  /** How many of them are newcomers. */
  get newcomers(): number {
    return this.#newcomers;
  }

  get(id: PNodeId): FleetNode | undefined {
    return this.#nodes.get(id);
  }

  nodes(): IterableIterator<FleetNode> {
    return this.#nodes.values();
  }

  /** Fastest first. */
  pools(): readonly Pool[] {
    return this.#ordered;
  }

  /** Numerics classes that somebody computes in. */
  classes(engine: string): readonly string[] {
    return Array.from(this.#classes.get(engine)?.keys() ?? []).sort();
  }

  #count(node: FleetNode, sign: 1 | -1): void {
    if (node.newcomer) this.#newcomers += sign;
    for (const { engine, class: name } of node.numerics) {
      const counts = this.#classes.get(engine) ?? new Map<string, number>();
      const count = (counts.get(name) ?? 0) + sign;
      if (count > 0) counts.set(name, count);
      else counts.delete(name);
      this.#classes.set(engine, counts);
    }
  }

  set(node: FleetNode): void {
    this.#leavePool(node.id);
    this.#nodes.set(node.id, node);
    const pool = this.#poolFor(node);
    insert(pool.nodes, node, isFaster);
    this.#count(node, 1);
    pool.example = pool.nodes[0] as FleetNode;
    this.#poolOf.set(node.id, pool);
  }

  /** For decisions about a fleet that is not so, or not yet: changing the copy leaves this one alone. */
  copy(): Fleet {
    const copy = new Fleet([], this.#measured);
    for (const [id, node] of this.#nodes) copy.#nodes.set(id, node);
    for (const pool of this.#ordered) {
      const own = { ...pool, nodes: [...pool.nodes] };
      copy.#pools.set(pool.name, own);
      copy.#ordered.push(own);
      for (const node of pool.nodes) copy.#poolOf.set(node.id, own);
    }
    copy.#newcomers = this.#newcomers;
    for (const [engine, counts] of this.#classes) copy.#classes.set(engine, new Map(counts));
    return copy;
  }

  delete(id: PNodeId): void {
    this.#leavePool(id);
    this.#nodes.delete(id);
  }

  #poolFor(node: FleetNode): Pool {
    const name = poolName(node);
    let pool = this.#pools.get(name);
    if (!pool) {
      const gflopsMost = 2 ** ((speedStep(node) + 1) / speedStepsPerDoubling);
      pool = { name, example: node, nodes: [], gflopsMost, memoryBelowBytes: 2 ** (memoryStep(node) + 1) };
      this.#pools.set(name, pool);
      insert(this.#ordered, pool, isFasterPool);
    }
    return pool;
  }

  #leavePool(id: PNodeId): void {
    const node = this.#nodes.get(id);
    const pool = this.#poolOf.get(id);
    if (!node || !pool) return;
    pool.nodes.splice(position(pool.nodes, node, isFaster), 1);
    this.#count(node, -1);
    this.#poolOf.delete(id);
    if (pool.nodes[0]) {
      pool.example = pool.nodes[0];
    } else {
      this.#pools.delete(pool.name);
      this.#ordered.splice(position(this.#ordered, pool, isFasterPool), 1);
    }
  }

  /** As measured by traffic, or a guess from what both PNodes measured towards the orchestrator. */
  link(from: FleetNode, to: FleetNode): Link {
    const measured = this.#measured(from.id, to.id) ?? this.#measured(to.id, from.id);
    if (measured) return measured;
    const least = from.region === to.region ? 0 : assumedFarLatencyMs;
    const rate = (node: FleetNode) => node.bytesPerSecond || assumedBytesPerSecond;
    return {
      latencyMs: Math.max(from.latencyMs + to.latencyMs, least),
      bytesPerSecond: Math.min(rate(from), rate(to)),
    };
  }
}

function isFaster(a: FleetNode, b: FleetNode): boolean {
  return a.gflops > b.gflops || (a.gflops === b.gflops && a.id < b.id);
}

function isFasterPool(a: Pool, b: Pool): boolean {
  return a.gflopsMost > b.gflopsMost || (a.gflopsMost === b.gflopsMost && a.name < b.name);
}

/** Of items in order, where `item` is or would be. */
function position<T>(items: readonly T[], item: T, isBefore: (a: T, b: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(items[middle] as T, item)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function insert<T>(items: T[], item: T, isBefore: (a: T, b: T) => boolean): void {
  items.splice(position(items, item, isBefore), 0, item);
}

/** A PNode that fails often does less work than its speed says. */
export function reliableShare(node: FleetNode): number {
  return 0.5 + 0.5 * Math.min(1, Math.max(0, node.reliability));
}

/** Speed that a workload can expect of a node, next to what other workloads run there. */
export function expectedGflops(node: FleetNode, workload: string): number {
  let others = 0;
  for (const [other, count] of node.hosts) if (other !== workload) others += count;
  const cores = Math.max(1, node.cores);
  return Math.max(node.gflops, 0.001) * (cores / (cores + others)) * reliableShare(node);
}

function speedStep(node: FleetNode): number {
  return Math.floor(Math.log2(expectedGflops(node, "")) * speedStepsPerDoubling);
}

function memoryStep(node: FleetNode): number {
  return node.memoryFreeBytes < 1 ? 0 : Math.floor(Math.log2(node.memoryFreeBytes));
}

function poolName(node: FleetNode): string {
  const numerics = node.numerics.map((one) => `${one.engine}=${one.class}`).join(",");
  const gpus = node.gpus.length === 0 ? "0" : `${node.gpusFree}/${node.gpus.join("+")}`;
  const odd = `${node.accepting ? "" : "closed"}${node.flapping ? "flapping" : ""}${node.newcomer ? "new" : ""}`;
  const kind = [node.region, node.provider, node.trust, node.architecture, node.bits, numerics, gpus, odd];
  return [speedStep(node), memoryStep(node), ...kind].join("|");
}
