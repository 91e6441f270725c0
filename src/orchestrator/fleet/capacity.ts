// Keeps the fleet that placement works on current: one node per PNode that is online, with what is claimed of
// it already. Fed by changes of the mirror, so that no decision begins with a walk over everything.

import type { PNodeId, WorkloadId } from "../../core/ids.ts";
import { Fleet } from "../../scheduler/placement/fleet.ts";
import type { FleetNode } from "../../scheduler/placement/types.ts";
import { claimedIn } from "../../scheduler/room.ts";
import type { Context } from "../context.ts";
import { isOpen, type Key, key, type PNodeRecord, type VNodeRecord } from "../records/records.ts";
import type { Attachment } from "./attachment.ts";
import type { Flapping } from "./flapping.ts";
import { lentBy } from "./rooms.ts";
import { Speeds } from "./speeds.ts";

interface Hosted {
  /** VNodes by workload. */
  readonly workloads: Map<WorkloadId, number>;
  readonly vnodes: Set<Key<VNodeRecord>>;
}

/** A PNode that measures nothing yet is taken for a slow one. */
const gflopsUnknown = 5;
/** A change of speed that placement hears of, as a share. */
const noticeable = 0.1;

export class Capacity {
  readonly fleet: Fleet;
  readonly #context: Context;
  readonly #flapping: Flapping;
  readonly #hosted = new Map<PNodeId, Hosted>();
  readonly #speeds = new Speeds();
  /** What placement counts on now, where it was learned. */
  readonly #counted = new Map<PNodeId, number>();

  constructor(context: Context, attachments: ReadonlyMap<PNodeId, Attachment>, flapping: Flapping) {
    this.#context = context;
    this.#flapping = flapping;
    this.fleet = new Fleet([], (from, to) => {
      const attachment = attachments.get(from);
      return attachment?.links.get(to);
    });
    const { mirror } = context;
    mirror.on("pnode", (now, before) => this.#refresh((now ?? before)?.id));
    mirror.on("room", (now, before) => this.#refresh((now ?? before)?.pnode));
    mirror.on("vnode", (now, before) => {
      for (const member of before?.members ?? []) this.#count(member.pnode, before as VNodeRecord, -1);
      for (const member of now?.members ?? []) this.#count(member.pnode, now as VNodeRecord, 1);
    });
  }

  /** Keys of the VNode records that name the PNode. */
  vnodesOn(pnode: PNodeId): ReadonlySet<Key<VNodeRecord>> {
    return this.#hosted.get(pnode)?.vnodes ?? new Set();
  }

  /** Those of which it hosts a VNode. */
  workloadsOn(pnode: PNodeId): WorkloadId[] {
    return Array.from(this.#hosted.get(pnode)?.workloads.keys() ?? []);
  }

  hosts(pnode: PNodeId, workload: WorkloadId): boolean {
    return this.#hosted.get(pnode)?.workloads.has(workload) ?? false;
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

  #count(pnode: PNodeId, record: VNodeRecord, sign: 1 | -1): void {
    let hosted = this.#hosted.get(pnode);
    if (!hosted) {
      hosted = { workloads: new Map(), vnodes: new Set() };
      this.#hosted.set(pnode, hosted);
    }
    const count = (hosted.workloads.get(record.session) ?? 0) + sign;
    if (count > 0) hosted.workloads.set(record.session, count);
    else hosted.workloads.delete(record.session);
    const own = key.vnode(record.session, record.vnode);
    if (sign > 0) hosted.vnodes.add(own);
    else hosted.vnodes.delete(own);
    if (hosted.vnodes.size === 0) this.#hosted.delete(pnode);
  }

  #refresh(pnode: PNodeId | undefined): void {
    if (pnode === undefined) return;
    const record = this.#context.mirror.get(key.pnode(pnode));
    if (record?.status !== "online") {
      this.fleet.delete(pnode);
      return;
    }
    this.fleet.set(this.#node(record));
  }

  #node(record: PNodeRecord): FleetNode {
    const { facts, limits } = record;
    const lent = lentBy(record);
    const used = claimedIn(this.#context.mirror.get(key.room(record.id)), record.life);
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
      memoryBytes: lent.memoryBytes,
      memoryFreeBytes: lent.memoryBytes - used.memoryBytes,
      gpus: facts.gpus.map((gpu) => gpu.memoryBytes).sort((a, b) => b - a),
      gpusFree: lent.gpus - used.gpus,
      pricePerHour: record.pricePerHour,
      reliability: record.history.reliability,
      flapping: this.#flapping.isFlapping(record.id),
      accepting: isOpen(record),
      latencyMs: facts.latencyMs,
      bytesPerSecond: facts.bandwidthBytesPerSecond,
      hosts: used.workloads,
    };
  }
}
