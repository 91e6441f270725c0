// Drives each workload towards what its record says: VNodes created, owned and re-owned, the workload ended or erased.
// Runs for a workload whenever something about it changed, one run at a time. What only sessions or only replicas do
// is in their own care.

import { isReplicaId, type PNodeId, type WorkloadId } from "../../core/ids.ts";
import type { Placement, PlacementPlan } from "../../scheduler/placement/types.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { Rooms } from "../fleet/capacity/rooms.ts";
import { isOpen, type PNodeRecord, type RoomRecord } from "../records/machines.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import {
  called,
  isLive,
  kindOf,
  onWorkload,
  type VNodeRecords,
  vnodeRecordsOf,
  workloadsIn,
} from "../records/workloads.ts";
import type { Garbage } from "../sessions/garbage.ts";
import { Latest } from "../tasks.ts";
import type { Care } from "./care.ts";
import type { Leases } from "./leases.ts";
import { nextFree } from "./next-free.ts";
import { byImportance, type Placing } from "./placing.ts";
import { needsPlacement, release } from "./recovery.ts";
import { createVNodes } from "./vnode-records.ts";
import { Yielding } from "./yielding.ts";

export interface ControllerNeeds {
  readonly capacity: Capacity;
  readonly rooms: Rooms;
  readonly placing: Placing;
  readonly leases: Leases;
  readonly garbage: Garbage;
  readonly sessions: Care;
  readonly replicas: Care;
}

const handOverPollMs = 50;
/** A PNode that leaves is not kept waiting longer; its VNodes are then re-placed as if it were lost. */
const handOverMs = 10_000;

export class Controller {
  readonly #context: Context;
  readonly #needs: ControllerNeeds;
  readonly #work: Latest<WorkloadId>;
  readonly #yielding: Yielding;
  /** Those to look at even without their lease: a PNode that was attached here is gone. */
  readonly #urgent = new Set<WorkloadId>();
  /** Kept to tell people what a workload waits for. */
  readonly unplaced = new Map<string, Placement["unplaced"]>();

  constructor(context: Context, needs: ControllerNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#yielding = new Yielding(context);
    this.#work = new Latest(context.tasks, "the care", (id) => this.#reconcile(id));
    const { mirror } = context;
    onWorkload(mirror, (now, before) => this.touch((now ?? before)?.id));
    mirror.on("vnode", (now, before) => this.touch((now ?? before)?.session));
    mirror.on("pnode", (now, before) => this.#onPNode(now, before));
    mirror.on("room", (now, before) => this.#onRoom(now, before));
  }

  touch(workload: WorkloadId | undefined, urgent = false): void {
    if (workload === undefined) return;
    if (urgent) this.#urgent.add(workload);
    this.#work.request(workload);
  }

  touchAll(): void {
    for (const { id, status } of this.#inOrder()) if (status !== "created") this.touch(id);
  }

  #inOrder(): WorkloadRecord[] {
    return workloadsIn(this.#context.mirror).sort(byImportance);
  }

  /** Wherever it is attached: who holds a workload's lease takes care of it. */
  #onPNode(now: PNodeRecord | undefined, before: PNodeRecord | undefined): void {
    const open = (record: PNodeRecord | undefined) => record !== undefined && isOpen(record);
    const same =
      now?.status === before?.status &&
      open(now) === open(before) &&
      now?.incarnation === before?.incarnation &&
      now?.uncounted === before?.uncounted;
    if (now && !same) this.fleetChanged(now.id, false);
  }

  /** Room that is given back is room for those who wait. */
  #onRoom(now: RoomRecord | undefined, before: RoomRecord | undefined): void {
    const claims = Object.keys(before?.claims ?? {});
    if (claims.some((claim) => now?.claims[claim] === undefined)) this.#touchWaiting();
  }

  #touchWaiting(except: ReadonlySet<string> = new Set()): void {
    for (const workload of this.#inOrder())
      if (this.#mayLack(workload) && !except.has(workload.id)) this.touch(workload.id);
  }

  /** One that goes on without some of its VNodes still wants a place for them. */
  #mayLack(workload: WorkloadRecord): boolean {
    if (workload.status === "waiting") return true;
    return workload.status === "running" && this.#careOf(workload.id).goesOnWithout(workload, []);
  }

  /** A PNode came, left or was lost, or its owner's hours began or ended. */
  fleetChanged(pnode: PNodeId, urgent: boolean): void {
    const hit = new Set(this.#needs.capacity.workloadsOn(pnode));
    for (const workload of hit) this.touch(workload, urgent);
    this.#touchWaiting(hit);
  }

  async handOver(pnode: PNodeId): Promise<void> {
    const { world, tasks } = this.#context;
    const untilMs = world.clock.monotonicMs() + handOverMs;
    while (this.#needs.capacity.vnodesOn(pnode).size > 0 && world.clock.monotonicMs() < untilMs && !tasks.stopped) {
      this.fleetChanged(pnode, true);
      await new Promise<void>((resolve) => {
        world.timers.after(handOverPollMs, resolve);
      });
    }
  }

  #careOf(id: WorkloadId): Care {
    return isReplicaId(id) ? this.#needs.replicas : this.#needs.sessions;
  }

  async #reconcile(id: WorkloadId): Promise<void> {
    const { mirror } = this.#context;
    const workload = mirror.get(key.workload(id));
    if (!workload) return this.#removeStrays(id);
    if (workload.status === "created") return;
    const urgent = this.#urgent.delete(id);
    const holder = await this.#needs.leases.hold(id);
    if (!holder && !urgent) return;
    if (isLive(workload)) {
      await this.#run(workload, holder);
      return;
    }
    this.unplaced.delete(id);
    this.#yielding.whole(id);
    if (workload.status === "deleted") {
      if (holder) await this.#erase(workload);
      return;
    }
    await release(this.#context, this.#needs.rooms, vnodeRecordsOf(mirror, workload));
    await this.#careOf(id).ended(workload, vnodeRecordsOf(mirror, workload), holder);
  }

  async #run(workload: WorkloadRecord, holder: boolean): Promise<void> {
    const care = this.#careOf(workload.id);
    const plan = await care.plan(workload);
    await createVNodes(this.#context, workload, plan, care.initialStates(workload));
    if (holder) await care.tend(workload);
    const now = this.#context.mirror.get(key.workload(workload.id));
    if (now && isLive(now) && (await care.settle(now))) await this.#place(now, plan, holder);
  }

  /** The workload's own record goes last, so that whoever finds half of it goes on. */
  async #erase(workload: WorkloadRecord): Promise<void> {
    const { mirror, events } = this.#context;
    const { id } = workload;
    const records = vnodeRecordsOf(mirror, workload);
    await release(this.#context, this.#needs.rooms, records);
    await this.#careOf(id).ended(workload, records, true);
    for (const record of records.values()) {
      await mirror.remove(key.vnode(id, record.vnode));
      this.#needs.garbage.add(Object.values(record.durable).map((state) => state.hash));
    }
    await this.#careOf(id).erase(workload);
    await mirror.remove(key.workload(id));
    events.emit("info", `${kindOf(id)}.deleted`, `${called(id)} is deleted`, { session: id });
    await this.#needs.leases.forget(id);
  }

  /** One whose mirror was behind may have written VNodes of a workload that was being erased. */
  async #removeStrays(id: WorkloadId): Promise<void> {
    const { mirror } = this.#context;
    const strays = mirror.under(prefix.vnodesOf(id));
    if (strays.length === 0 || (await mirror.read(key.workload(id)))) return;
    for (const { vnode, epoch } of strays)
      await mirror.remove(key.vnode(id, vnode), (current) => current.epoch === epoch);
  }

  async #place(workload: WorkloadRecord, plan: PlacementPlan, holder: boolean): Promise<void> {
    const { mirror } = this.#context;
    if (!needsPlacement(this.#context, workload, vnodeRecordsOf(mirror, workload))) {
      this.unplaced.delete(workload.id);
      this.#yielding.whole(workload.id);
      if (holder) await this.#setStatus(workload, "running", "");
      return;
    }
    const { unplaced } = await this.#needs.placing.place({
      plan,
      now: () => this.#lacking(workload.id),
      nextFree: (kind) => nextFree(mirror, workload.id, kind),
      classes: (now, records) => this.#careOf(workload.id).classes(now, records),
    });
    this.unplaced.set(workload.id, unplaced);
    const blocking = unplaced.filter((one) => one.copy === 0);
    const without = blocking.map(({ vnode }) => vnode);
    if (blocking.length > 0 && !this.#careOf(workload.id).goesOnWithout(workload, without)) {
      await this.#setStatus(workload, "waiting", waitingReason(blocking));
      await this.#yieldRoom(workload);
      return;
    }
    this.#yielding.whole(workload.id);
    await this.#setStatus(workload, "running", "");
  }

  async #yieldRoom(workload: WorkloadRecord): Promise<void> {
    const first = this.#yielding.for(workload, () => this.touch(workload.id));
    if (!first) return;
    await release(this.#context, this.#needs.rooms, vnodeRecordsOf(this.#context.mirror, workload));
    this.#yielding.told(workload, first);
  }

  /** Undefined if it has ended, or has everything, by now. */
  #lacking(id: WorkloadId): { workload: WorkloadRecord; records: VNodeRecords } | undefined {
    const { mirror } = this.#context;
    const workload = mirror.get(key.workload(id));
    if (!workload || !isLive(workload)) return undefined;
    const records = vnodeRecordsOf(mirror, workload);
    return needsPlacement(this.#context, workload, records) ? { workload, records } : undefined;
  }

  async #setStatus({ id, ...seen }: WorkloadRecord, status: "running" | "waiting", reason: string): Promise<void> {
    if (seen.status === status && seen.reason === reason) return;
    const { written } = await this.#context.mirror.update(key.workload(id), (current) => {
      if (!current || !isLive(current) || (current.status === status && current.reason === reason)) return undefined;
      return { ...current, status, reason };
    });
    if (!written) return;
    const message = status === "waiting" ? `${called(id)} waits: ${reason}` : `${called(id)} runs`;
    const level = status === "waiting" ? "warn" : "info";
    this.#context.events.emit(level, `${kindOf(id)}.${status}`, message, { session: id });
  }
}

/** One sentence for all: VNodes that wait for the same thing are named together. */
function waitingReason(unplaced: Placement["unplaced"]): string {
  const byReason = new Map<string, string[]>();
  for (const { vnode, reason } of unplaced) {
    const list = byReason.get(reason);
    if (list) list.push(vnode);
    else byReason.set(reason, [vnode]);
  }
  const parts = Array.from(byReason, ([reason, vnodes]) => {
    const named =
      vnodes.length > 3 ? `${vnodes.slice(0, 3).join(", ")} and ${vnodes.length - 3} more` : vnodes.join(", ");
    return `${named}: ${reason}`;
  });
  return parts.slice(0, 5).join("; ");
}
