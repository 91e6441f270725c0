// Keeps the fleet that placement works on current: one node per PNode that is online, with what is claimed of
// it already. Fed by changes of the mirror, so that no decision begins with a walk over everything.

import type { PNodeId, WorkloadId } from "../../../core/ids.ts";
import { Fleet } from "../../../scheduler/placement/fleet.ts";
import { type FleetNode, trustLevel } from "../../../scheduler/placement/types.ts";
import { claimedIn } from "../../../scheduler/room.ts";
import type { Context } from "../../context.ts";
import { isOpen, type PNodeRecord } from "../../records/machines.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import { type Key, key } from "../../records/store-keys.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import type { Attachment } from "../attached/attachment.ts";
import type { Flapping } from "../believed/flapping.ts";
import { believedGflops, isNewcomer, ProvingWork, SeenWork, UsualSpeed } from "../believed/newcomers.ts";
import { Speeds } from "../believed/speeds.ts";
import { lentBy } from "./rooms.ts";

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
  readonly #usual = new UsualSpeed();
  readonly #proving = new ProvingWork();
  readonly #seen = new SeenWork();
  /** Of machines that may host more than is claimed of them, since they may not have come to say so yet. */
  isAwaited: (record: PNodeRecord) => boolean = () => false;

  constructor(context: Context, attachments: ReadonlyMap<PNodeId, Attachment>, flapping: Flapping) {
    this.#context = context;
    this.#flapping = flapping;
    this.fleet = new Fleet([], (from, to) => {
      const attachment = attachments.get(from);
      return attachment?.links.get(to);
    });
    const { mirror } = context;
    mirror.on("pnode", (now, before) => this.#refresh((now ?? before)?.id));
    mirror.on("session", (now, before) => {
      if (now && before && now.line > before.line) this.#observeWork(now, before.line);
    });
    mirror.on("room", (now, before) => this.#refresh((now ?? before)?.pnode));
    mirror.on("vnode", (now, before) => {
      for (const member of before?.members ?? []) this.#count(member.pnode, before as VNodeRecord, -1);
      for (const member of now?.members ?? []) this.#count(member.pnode, now as VNodeRecord, 1);
    });
  }

  /** Who was awaited may be awaited no longer, or the other way round. */
  lookAgain(): void {
    for (const { id } of [...this.fleet.nodes()]) this.#refresh(id);
  }

  /** Keys of the VNode records that name the PNode. */
  vnodesOn(pnode: PNodeId): ReadonlySet<Key<VNodeRecord>> {
    return this.#hosted.get(pnode)?.vnodes ?? new Set();
  }

  /** What the VNodes that it hosts need in memory. */
  memoryHeldBytes(pnode: PNodeId): number {
    let bytes = 0;
    for (const own of this.vnodesOn(pnode)) bytes += this.#context.mirror.get(own)?.memoryBytes ?? 0;
    return bytes;
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

  /** Everybody who hosts a VNode of a session has taken part in the steps that its line has passed. */
  #observeWork({ id, line, vnodes }: SessionRecord, lineBefore: number): void {
    const { mirror, world } = this.#context;
    const flops = new Map<PNodeId, number>();
    for (const vnode of vnodes) {
      const record = mirror.get(key.vnode(id, vnode));
      for (const { pnode } of record?.members ?? []) flops.set(pnode, (flops.get(pnode) ?? 0) + (record?.flops ?? 0));
    }
    const steps = line - lineBefore;
    const nowMs = world.clock.monotonicMs();
    for (const [pnode, perStep] of flops) {
      const record = mirror.get(key.pnode(pnode));
      if (record && isNewcomer(record) && this.#proving.note(pnode, steps)) this.#noteWorked(pnode);
      if (this.#seen.note(pnode, perStep * steps, nowMs)) this.#refresh(pnode);
    }
  }

  #noteWorked(pnode: PNodeId): void {
    const { mirror, tasks } = this.#context;
    const worked = (current: PNodeRecord | undefined) =>
      current === undefined || current.worked ? undefined : { ...current, worked: true };
    tasks.run(`noting the work of ${pnode}`, () => mirror.update(key.pnode(pnode), worked));
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
      if (this.#usual.note(pnode, undefined)) this.#refreshNewcomers();
      return;
    }
    const learned = isNewcomer(record) ? undefined : this.#counted.get(pnode);
    const { gflops: claimed } = record.facts;
    const speed =
      learned === undefined
        ? { gflops: claimed, source: isNewcomer(record) ? ("newcomer" as const) : ("worker" as const) }
        : { gflops: learned * threadsOf(record), source: "measured" as const };
    if (speed.gflops > 0 && this.#usual.note(pnode, speed)) this.#refreshNewcomers();
    this.fleet.set(this.#node(record));
  }

  #refreshNewcomers(): void {
    const { mirror } = this.#context;
    for (const { id, newcomer } of [...this.fleet.nodes()]) {
      const record = newcomer && mirror.get(key.pnode(id));
      if (record) this.fleet.set(this.#node(record));
    }
  }

  #node(record: PNodeRecord): FleetNode {
    const { facts } = record;
    const lent = lentBy(record);
    const used = claimedIn(this.#context.mirror.get(key.room(record.id)), record.life);
    const isCounted = !record.uncounted && !this.isAwaited(record);
    const learned = this.#counted.get(record.id);
    const newcomer = isNewcomer(record);
    const shown = (learned === undefined ? facts.gflops : learned * threadsOf(record)) || gflopsUnknown;
    // What heartbeats say of a machine's speed is a claim as well.
    const most = newcomer ? this.#usual.most : believedGflops(this.#usual, this.#seen.of(record.id));
    const gflops = trustLevel(record.trust) > 0 ? shown : Math.min(shown, most);
    return {
      id: record.id,
      owner: record.owner,
      ...(record.network === undefined ? {} : { network: record.network }),
      region: record.region,
      provider: record.provider,
      trust: record.trust,
      architecture: facts.architecture,
      bits: record.bits ?? 0,
      answerBits: record.answerBits ?? 0,
      numerics: facts.numerics.filter((one) => !record.excluded?.includes(one.class)),
      gflops,
      newcomer,
      cores: lentCores(record),
      memoryBytes: lent.memoryBytes,
      memoryFreeBytes: isCounted ? lent.memoryBytes - used.memoryBytes : 0,
      gpus: facts.gpus.map((gpu) => gpu.memoryBytes).sort((a, b) => b - a),
      gpusFree: isCounted ? lent.gpus - used.gpus : 0,
      pricePerHour: record.pricePerHour,
      reliability: record.history.reliability,
      flapping: this.#flapping.isFlapping(record.id),
      accepting: isOpen(record),
      latencyMs: facts.latencyMs,
      bytesPerSecond: lineOf(facts.bandwidthBytesPerSecond, record.limits.bandwidthBytesPerSecond),
      hosts: used.workloads,
    };
  }
}

function lentCores({ facts, limits }: PNodeRecord): number {
  return Math.min(limits.cpus || facts.cores, facts.cores);
}

/** Each computes a VNode at the speed that is seen; one that has a part of a core is seen to be slower. */
function threadsOf(record: PNodeRecord): number {
  return Math.ceil(lentCores(record));
}

/** What the line carries, or what the owner lends of it. 0: neither is known. */
function lineOf(measured: number, lent: number): number {
  return measured > 0 && lent > 0 ? Math.min(measured, lent) : measured || lent;
}
