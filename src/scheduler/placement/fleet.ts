// The fleet as placement sees it: all PNodes by id and, for speed, in pools of near equals. No hard constraint
// tells the nodes of a pool apart but the exact memory, so placing costs little however large the fleet is.

import type { PNodeId } from "../../core/ids.ts";
import { Names } from "./names.ts";
import { type FleetNode, isMixable, type LinkSpeed, mixedEngine, trustLevel } from "./types.ts";

export interface Pool {
  readonly name: string;
  readonly kind: Kind;
  /** Among the pools of its kind. */
  readonly step: number;
  /** One node of it: answers every question about region, trust, architecture, numerics and GPUs. */
  example: FleetNode;
  /** Fastest first, ties by id. */
  readonly nodes: FleetNode[];
  /** All of its nodes expect at most this. */
  readonly gflopsMost: number;
  /** All of its nodes have less than this free. */
  readonly memoryBelowBytes: number;
}

/** All pools of PNodes that differ in speed, free memory and free GPUs alone. */
export interface Kind {
  readonly name: string;
  readonly pools: Map<number, Pool>;
}

export type MeasuredLinks = (from: PNodeId, to: PNodeId) => LinkSpeed | undefined;

/** Speeds within 2^(1/4) share a pool. */
const speedStepsPerDoubling = 4;
/** A home connection, as long as nothing was measured. */
const assumedBytesPerSecond = 10 << 20;
const assumedFarLatencyMs = 40;

export class Fleet {
  readonly #nodes = new Map<PNodeId, FleetNode>();
  readonly #kinds = new Map<string, Kind>();
  readonly #poolOf = new Map<PNodeId, Pool>();
  readonly #measured: MeasuredLinks;
  /** All pools, fastest first. */
  readonly #ordered: Pool[] = [];
  #newcomers = 0;
  #untrusted = 0;
  #namesOfNewcomers = new Names();
  #namesOfUntrusted = new Names();
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

  /** Of how many no results were found right yet. */
  get untrusted(): number {
    return this.#untrusted;
  }

  /** How many of those belong to one owner or network, by its name; only where several do. */
  namesOf(which: "newcomers" | "untrusted"): ReadonlyMap<string, number> {
    return (which === "newcomers" ? this.#namesOfNewcomers : this.#namesOfUntrusted).shared;
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
    const engines = engine === mixedEngine ? [...this.#classes.keys()].filter(isMixable) : [engine];
    return [...new Set(engines.flatMap((one) => [...(this.#classes.get(one)?.keys() ?? [])]))].sort();
  }

  #count(node: FleetNode, sign: 1 | -1): void {
    if (node.newcomer) {
      this.#newcomers += sign;
      this.#namesOfNewcomers.count(node, sign);
    }
    if (trustLevel(node.trust) === 0) {
      this.#untrusted += sign;
      this.#namesOfUntrusted.count(node, sign);
    }
    for (const { engine, class: name } of node.numerics) {
      const counts = this.#classes.get(engine) ?? new Map<string, number>();
      const count = (counts.get(name) ?? 0) + sign;
      if (count > 0) counts.set(name, count);
      else counts.delete(name);
      this.#classes.set(engine, counts);
    }
  }

  set(node: FleetNode): void {
    const before = this.#nodes.get(node.id);
    const left = this.#poolOf.get(node.id);
    const kind = before && left && isOfKind(node, before) ? left.kind : this.#kindOf(node);
    const step = stepOf(node);
    const isNamedAlike = before !== undefined && before.owner === node.owner && before.network === node.network;
    if (left?.kind === kind && left.step === step && before?.gflops === node.gflops && isNamedAlike) {
      // Most changes: something was claimed or given back, and it is among its equals still.
      left.nodes[position(left.nodes, node, isFaster)] = node;
      left.example = left.nodes[0] as FleetNode;
      this.#nodes.set(node.id, node);
      return;
    }
    this.#leavePool(node.id);
    this.#nodes.set(node.id, node);
    this.#count(node, 1);
    const pool = this.#poolFor(kind, step, node);
    insert(pool.nodes, node, isFaster);
    pool.example = pool.nodes[0] as FleetNode;
    this.#poolOf.set(node.id, pool);
  }

  /** For decisions about a fleet that is not so, or not yet: changing the copy leaves this one alone. */
  copy(): Fleet {
    const copy = new Fleet([], this.#measured);
    for (const [id, node] of this.#nodes) copy.#nodes.set(id, node);
    for (const pool of this.#ordered) {
      const kind = copy.#kinds.get(pool.kind.name) ?? { name: pool.kind.name, pools: new Map() };
      const own = { ...pool, kind, nodes: [...pool.nodes] };
      copy.#kinds.set(kind.name, kind);
      kind.pools.set(pool.step, own);
      copy.#ordered.push(own);
      for (const node of pool.nodes) copy.#poolOf.set(node.id, own);
    }
    copy.#newcomers = this.#newcomers;
    copy.#untrusted = this.#untrusted;
    copy.#namesOfNewcomers = new Names(this.#namesOfNewcomers);
    copy.#namesOfUntrusted = new Names(this.#namesOfUntrusted);
    for (const [engine, counts] of this.#classes) copy.#classes.set(engine, new Map(counts));
    return copy;
  }

  delete(id: PNodeId): void {
    this.#leavePool(id);
    this.#nodes.delete(id);
  }

  #kindOf(node: FleetNode): Kind {
    const name = kindName(node);
    return this.#kinds.get(name) ?? { name, pools: new Map() };
  }

  #poolFor(kind: Kind, step: number, node: FleetNode): Pool {
    const known = kind.pools.get(step);
    if (known) return known;
    const gflopsMost = 2 ** ((speedStep(node) + 1) / speedStepsPerDoubling);
    const memoryBelowBytes = 2 ** (memoryStep(node) + 1);
    const pool = { name: poolName(node), kind, step, example: node, nodes: [], gflopsMost, memoryBelowBytes };
    kind.pools.set(step, pool);
    this.#kinds.set(kind.name, kind);
    insert(this.#ordered, pool, isFasterPool);
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
      return;
    }
    this.#ordered.splice(position(this.#ordered, pool, isFasterPool), 1);
    pool.kind.pools.delete(pool.step);
    if (pool.kind.pools.size === 0) this.#kinds.delete(pool.kind.name);
  }

  /** As measured by traffic, or a guess from what both PNodes measured towards the orchestrator. */
  link(from: FleetNode, to: FleetNode): LinkSpeed {
    const measured = this.#measured(from.id, to.id) ?? this.#measured(to.id, from.id);
    if (measured) return measured;
    const leastMs = from.region === to.region ? 0 : assumedFarLatencyMs;
    return {
      latencyMs: Math.max(from.latencyMs + to.latencyMs, leastMs),
      bytesPerSecond: Math.min(
        from.bytesPerSecond || assumedBytesPerSecond,
        to.bytesPerSecond || assumedBytesPerSecond,
      ),
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

/** Speed, free memory and free GPUs as one number. */
function stepOf(node: FleetNode): number {
  const gpusFree = Math.min(4095, Math.max(0, node.gpusFree));
  return (speedStep(node) * 128 + memoryStep(node)) * 4096 + gpusFree;
}

function kindParts(node: FleetNode, gpus: string): (string | number)[] {
  const numerics = node.numerics.map((one) => `${one.engine}=${one.class}`).join(",");
  const odd = `${node.accepting ? "" : "closed"}${node.flapping ? "flapping" : ""}${node.newcomer ? "new" : ""}`;
  return [
    node.region,
    node.provider,
    node.trust,
    node.architecture,
    node.bits,
    node.answerBits ?? 0,
    numerics,
    gpus,
    odd,
  ];
}

function kindName(node: FleetNode): string {
  return kindParts(node, node.gpus.join("+")).join("|");
}

function poolName(node: FleetNode): string {
  const gpus = node.gpus.length === 0 ? "0" : `${node.gpusFree}/${node.gpus.join("+")}`;
  return [speedStep(node), memoryStep(node), ...kindParts(node, gpus)].join("|");
}

/** The same as equal names, without making them. */
function isOfKind(a: FleetNode, b: FleetNode): boolean {
  return (
    a.region === b.region &&
    a.provider === b.provider &&
    a.trust === b.trust &&
    a.architecture === b.architecture &&
    a.bits === b.bits &&
    a.answerBits === b.answerBits &&
    a.accepting === b.accepting &&
    a.flapping === b.flapping &&
    a.newcomer === b.newcomer &&
    (a.gpus === b.gpus || (a.gpus.length === b.gpus.length && a.gpus.every((one, i) => one === b.gpus[i]))) &&
    (a.numerics === b.numerics ||
      (a.numerics.length === b.numerics.length &&
        a.numerics.every((one, i) => one.engine === b.numerics[i]?.engine && one.class === b.numerics[i]?.class)))
  );
}
