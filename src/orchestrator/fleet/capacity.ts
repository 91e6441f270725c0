// Keeps the fleet that placement works on current: one node per PNode that is online, with what the VNodes on
// it already use. Fed by changes of the mirror, so that no decision begins with a walk over everything.

import type { PNodeId } from "../../core/ids.ts";
import { Fleet } from "../../scheduler/placement/fleet.ts";
import type { FleetNode } from "../../scheduler/placement/types.ts";
import type { Context } from "../context.ts";
import { isOpen, key, type PNodeRecord, type SessionRecord, type VNodeRecord } from "../records/records.ts";
import type { Registry } from "./registry.ts";
import { Speeds } from "./speeds.ts";

interface Use {
  memoryBytes: number;
  /** VNodes by session. */
  readonly sessions: Map<string, number>;
  readonly vnodes: Set<string>;
}

/** Kept free on every PNode for the runtime itself. */
const memoryReserveBytes = 128 << 20;
/** A PNode that measures nothing yet is taken for a slow one. */
const gflopsUnknown = 5;
/** A change of speed that placement hears of, as a share. */
const noticeable = 0.1;

export class Capacity {
  readonly fleet: Fleet;
  readonly #context: Context;
  readonly #registry: () => Registry;
  readonly #uses = new Map<PNodeId, Use>();
  readonly #speeds = new Speeds();
  /** What placement counts on now, where it was learned. */
  readonly #counted = new Map<PNodeId, number>();

  constructor(context: Context, registry: () => Registry) {
    this.#context = context;
    this.#registry = registry;
    this.fleet = new Fleet([], (from, to) => {
      const attachment = registry().attachments.get(from);
      return attachment?.links.get(to);
    });
    context.mirror.onChange((storeKey, now, before) => {
      if (storeKey.startsWith("pnode/")) this.#refresh(storeKey.slice("pnode/".length) as PNodeId);
      if (storeKey.startsWith("vnode/"))
        this.#onVNode(storeKey, now?.value as VNodeRecord | undefined, before?.value as VNodeRecord | undefined);
    });
  }

  /** Store keys of the VNode records that name the PNode. */
  vnodesOn(pnode: PNodeId): ReadonlySet<string> {
    return this.#uses.get(pnode)?.vnodes ?? new Set();
  }

  hosts(pnode: PNodeId, session: string): boolean {
    return this.#uses.get(pnode)?.sessions.has(session) ?? false;
  }

  memoryUsed(pnode: PNodeId): number {
    return this.#uses.get(pnode)?.memoryBytes ?? 0;
  }

  /** A PNode's own work shows its speed. */
  observeSpeed(pnode: PNodeId, gflopsPerCore: number): void {
    this.#speeds.observe(pnode, gflopsPerCore);
    const learned = this.#speeds.of(pnode);
    const counted = this.#counted.get(pnode);
    // Placement need not follow every flutter.
    if (learned === undefined || (counted !== undefined && Math.abs(learned - counted) < noticeable * counted)) return;
    this.#counted.set(pnode, learned);
    this.#refresh(pnode);
  }

  /** What is decided while these PNodes are not in the fleet. */
  without<T>(pnodes: ReadonlySet<PNodeId>, decide: () => T): T {
    for (const pnode of pnodes) this.fleet.delete(pnode);
    try {
      return decide();
    } finally {
      for (const pnode of pnodes) this.#refresh(pnode);
    }
  }

  #onVNode(storeKey: string, now: VNodeRecord | undefined, before: VNodeRecord | undefined): void {
    const touched = new Set<PNodeId>();
    for (const member of before?.members ?? []) {
      this.#use(member.pnode, storeKey, before as VNodeRecord, -1);
      touched.add(member.pnode);
    }
    for (const member of now?.members ?? []) {
      this.#use(member.pnode, storeKey, now as VNodeRecord, 1);
      touched.add(member.pnode);
    }
    if (sameMembers(now, before)) return;
    for (const pnode of touched) this.#refresh(pnode);
  }

  #use(pnode: PNodeId, storeKey: string, record: VNodeRecord, sign: 1 | -1): void {
    let use = this.#uses.get(pnode);
    if (!use) {
      use = { memoryBytes: 0, sessions: new Map(), vnodes: new Set() };
      this.#uses.set(pnode, use);
    }
    use.memoryBytes += sign * record.memoryBytes;
    const count = (use.sessions.get(record.session) ?? 0) + sign;
    if (count > 0) use.sessions.set(record.session, count);
    else use.sessions.delete(record.session);
    if (sign > 0) use.vnodes.add(storeKey);
    else use.vnodes.delete(storeKey);
    if (use.vnodes.size === 0) this.#uses.delete(pnode);
  }

  #refresh(pnode: PNodeId): void {
    const record = this.#context.mirror.get<PNodeRecord>(key.pnode(pnode));
    if (record?.status !== "online") {
      this.fleet.delete(pnode);
      return;
    }
    this.fleet.set(this.#node(record));
  }

  #node(record: PNodeRecord): FleetNode {
    const use = this.#uses.get(record.id);
    const { facts, limits } = record;
    const memoryBytes = Math.max(0, (limits.memoryBytes || facts.memoryBytes) - memoryReserveBytes);
    const cores = Math.min(limits.cpus || facts.cores, facts.cores);
    const learned = this.#counted.get(record.id);
    const gflops = (learned === undefined ? facts.gflops : learned * facts.cores) || gflopsUnknown;
    return {
      id: record.id,
      owner: record.owner,
      region: record.region,
      trust: record.trust,
      architecture: facts.architecture,
      bits: record.bits ?? 0,
      numerics: facts.numerics,
      gflops: gflops * Math.min(1, cores / facts.cores),
      cores,
      memoryBytes,
      memoryFreeBytes: memoryBytes - (use?.memoryBytes ?? 0),
      gpus: facts.gpus.map((gpu) => gpu.memoryBytes).sort((a, b) => b - a),
      gpusFree: facts.gpus.length - this.#gpusReserved(use),
      pricePerHour: record.pricePerHour,
      reliability: record.history.reliability,
      flapping: this.#registry().flapping.isFlapping(record.id),
      accepting: isOpen(record),
      latencyMs: facts.latencyMs,
      bytesPerSecond: facts.bandwidthBytesPerSecond,
      hosts: new Map(use?.sessions ?? []),
    };
  }

  #gpusReserved(use: Use | undefined): number {
    let reserved = 0;
    for (const session of use?.sessions.keys() ?? [])
      reserved += this.#context.mirror.get<SessionRecord>(key.session(session))?.requirements.gpus ?? 0;
    return reserved;
  }
}

function sameMembers(a: VNodeRecord | undefined, b: VNodeRecord | undefined): boolean {
  if (a?.members.length !== b?.members.length) return false;
  return (a?.members ?? []).every((member, i) => member.pnode === b?.members[i]?.pnode);
}
