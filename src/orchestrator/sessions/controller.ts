// Drives each session towards what its record says: VNodes created, owned and re-owned, the recovery line moved,
// the session ended. Runs for a session whenever something about it changed, one run at a time.

import { messageOf } from "../../core/errors.ts";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import type { Placement, PlacementPlan } from "../../scheduler/placement/types.ts";
import { createItem, readItem } from "../../store/update.ts";
import type { Context } from "../context.ts";
import { isLive } from "../fleet/assignments.ts";
import type { Capacity } from "../fleet/capacity.ts";
import type { Rooms } from "../fleet/rooms.ts";
import { readSession } from "../records/fresh.ts";
import {
  isOpen,
  key,
  type PNodeRecord,
  prefix,
  type RoomRecord,
  type SessionRecord,
  type StepRecord,
  type VNodeRecord,
} from "../records/records.ts";
import { forEachAtOnce, Latest } from "../tasks.ts";
import type { Metrics } from "../views/metrics.ts";
import { type Compiled, placementPlan } from "./compiled.ts";
import { goBack } from "./damage.ts";
import type { DurableRequest } from "./durable.ts";
import { erase, keepLastAndBest } from "./ending.ts";
import { noteFailure } from "./failures.ts";
import type { Garbage } from "./garbage.ts";
import type { Leases } from "./leases.ts";
import { recoveryLine, stepRoots, type VNodeRecords } from "./line.ts";
import { bySessionOrder, type Placing } from "./placing.ts";
import { rebalance } from "./rebalancing.ts";
import { needsPlacement, release } from "./recovery.ts";

export interface ControllerNeeds {
  readonly capacity: Capacity;
  readonly rooms: Rooms;
  readonly placing: Placing;
  readonly compiled: Compiled;
  readonly leases: Leases;
  readonly metrics: Metrics;
  readonly garbage: Garbage;
}

const handOverPollMs = 50;
/** A PNode that leaves is not kept waiting longer; its VNodes are then re-placed as if it were lost. */
const handOverMs = 10_000;
const writesAtOnce = 64;

export class Controller {
  readonly #context: Context;
  readonly #needs: ControllerNeeds;
  readonly #work: Latest<SessionId>;
  /** Sessions to look at even without their lease: a PNode that was attached here is gone. */
  readonly #urgent = new Set<SessionId>();
  readonly #runningSinceMs = new Map<SessionId, number>();
  /** Kept to tell people what a session waits for. */
  readonly unplaced = new Map<string, Placement["unplaced"]>();

  constructor(context: Context, needs: ControllerNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#work = new Latest(context.tasks, "the care", (id) => this.#reconcile(id));
    const { mirror } = context;
    mirror.on("session", (now, before) => this.touch((now ?? before)?.id));
    mirror.on("vnode", (now, before) => this.touch((now ?? before)?.session));
    mirror.on("pnode", (now, before) => this.#onPNode(now, before));
    mirror.on("room", (now, before) => this.#onRoom(now, before));
  }

  touch(session: SessionId | undefined, urgent = false): void {
    if (session === undefined) return;
    if (urgent) this.#urgent.add(session);
    this.#work.request(session);
  }

  touchAll(): void {
    for (const session of this.#byPriority()) if (session.status !== "created") this.touch(session.id);
  }

  /** Whoever is more important, then older, is placed first. */
  #byPriority(): SessionRecord[] {
    return this.#context.mirror.under(prefix.sessions).sort(bySessionOrder);
  }

  /** Wherever it is attached: who holds a session's lease takes care of it. */
  #onPNode(now: PNodeRecord | undefined, before: PNodeRecord | undefined): void {
    const open = (record: PNodeRecord | undefined) => record !== undefined && isOpen(record);
    const same =
      now?.status === before?.status && open(now) === open(before) && now?.incarnation === before?.incarnation;
    if (now && !same) this.fleetChanged(now.id, false);
  }

  /** Room that is given back is room for those who wait. */
  #onRoom(now: RoomRecord | undefined, before: RoomRecord | undefined): void {
    const claims = Object.keys(before?.claims ?? {});
    if (claims.some((claim) => now?.claims[claim] === undefined)) this.#touchWaiting();
  }

  #touchWaiting(except: ReadonlySet<string> = new Set()): void {
    for (const session of this.#byPriority())
      if (session.status === "waiting" && !except.has(session.id)) this.touch(session.id);
  }

  /** A PNode came, left or was lost, or its owner's hours began or ended. */
  fleetChanged(pnode: PNodeId, urgent: boolean): void {
    const hit = new Set(this.#needs.capacity.sessionsOn(pnode));
    for (const session of hit) this.touch(session, urgent);
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

  records(session: SessionRecord): VNodeRecords {
    const records = new Map<VNodeId, VNodeRecord>();
    for (const vnode of session.vnodes) {
      const record = this.#context.mirror.get(key.vnode(session.id, vnode));
      if (record) records.set(vnode, record);
    }
    return records;
  }

  async #reconcile(id: SessionId): Promise<void> {
    const session = this.#context.mirror.get(key.session(id));
    if (!session) return this.#removeStrays(id);
    if (session.status === "created") return;
    const urgent = this.#urgent.delete(id);
    const holder = await this.#needs.leases.hold(id);
    if (!holder && !urgent) return;
    if (isLive(session)) {
      await this.#run(session, holder);
      return;
    }
    this.unplaced.delete(id);
    this.#runningSinceMs.delete(id);
    if (session.status === "deleted") {
      if (!holder) return;
      await erase(this.#context, this.#needs.rooms, this.#needs.garbage, session, this.records(session));
      await this.#needs.leases.forget(id);
      return;
    }
    await release(this.#context, this.#needs.rooms, this.records(session));
    if (holder && session.status === "done")
      await keepLastAndBest(this.#context, this.#needs.garbage, session, this.records(session));
  }

  async #run(session: SessionRecord, holder: boolean): Promise<void> {
    const plan = await this.#planOf(session);
    await this.#createVNodes(session, plan);
    if (holder) await this.advance(session.id);
    const now = this.#context.mirror.get(key.session(session.id));
    if (!now || !isLive(now)) return;
    await this.#place(now, plan, holder);
    if (holder) await this.#endIfOutOfTime(now);
  }

  /** One whose mirror was behind may have written VNodes of a session that was being erased. */
  async #removeStrays(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const strays = mirror.under(prefix.vnodesOf(id));
    if (strays.length === 0 || (await mirror.read(key.session(id)))) return;
    for (const { vnode, epoch } of strays)
      await mirror.remove(key.vnode(id, vnode), (current) => current.epoch === epoch);
  }

  async #createVNodes(session: SessionRecord, plan: PlacementPlan): Promise<void> {
    const missing = plan.vnodes.filter((vnode) => !this.#context.mirror.get(key.vnode(session.id, vnode.id)));
    if (missing.length === 0) return;
    const fresh = await this.#context.mirror.read(key.session(session.id));
    if (!fresh || !isLive(fresh)) return;
    const initial = session.initialStates ?? {};
    await forEachAtOnce(missing, writesAtOnce, ({ id, memoryBytes, flops }) =>
      this.#context.mirror.update(key.vnode(session.id, id), (current) => {
        if (current) return undefined;
        const state = initial[id];
        const durable: VNodeRecord["durable"] = state ? { "0": state } : {};
        const base = { session: session.id, vnode: id, epoch: 0, members: [], stepHashes: {}, failures: [] };
        return { ...base, durable, memoryBytes, flops };
      }),
    );
  }

  async #place(session: SessionRecord, plan: PlacementPlan, holder: boolean): Promise<void> {
    const records = this.records(session);
    if (!needsPlacement(this.#context, session, records)) {
      this.unplaced.delete(session.id);
      if (holder) await this.#setStatus(session, "running", "");
      return;
    }
    const { unplaced } = await this.#needs.placing.place({
      plan,
      now: () => this.#lacking(session.id),
      nextFree: (kind) => this.#nextFree(session, kind),
    });
    this.unplaced.set(session.id, unplaced);
    const blocking = unplaced.filter((one) => one.replica === 0);
    if (blocking.length > 0) await this.#setStatus(session, "waiting", waitingReason(blocking));
    else await this.#setStatus(session, "running", "");
  }

  /** Undefined if it has ended, or has everything, by now. */
  #lacking(id: SessionId): { session: SessionRecord; records: VNodeRecords } | undefined {
    const session = this.#context.mirror.get(key.session(id));
    if (!session || !isLive(session)) return undefined;
    const records = this.records(session);
    return needsPlacement(this.#context, session, records) ? { session, records } : undefined;
  }

  async #setStatus(session: SessionRecord, status: "running" | "waiting", reason: string): Promise<void> {
    if (session.status === status && session.reason === reason) return;
    const { written } = await this.#context.mirror.update(key.session(session.id), (current) => {
      if (!current || !isLive(current) || (current.status === status && current.reason === reason)) return undefined;
      return { ...current, status, reason };
    });
    if (!written) return;
    const message = status === "waiting" ? `session ${session.id} waits: ${reason}` : `session ${session.id} runs`;
    this.#context.events.emit(status === "waiting" ? "warn" : "info", `session.${status}`, message, {
      session: session.id,
    });
  }

  #nextFree(session: SessionRecord, kind: "gpus" | "memory"): string {
    const others = this.#context.mirror
      .under(prefix.sessions)
      .filter((other) => other.id !== session.id && isLive(other) && (kind === "memory" || other.requirements.gpus > 0))
      .sort((a, b) => a.identity.steps - a.line - (b.identity.steps - b.line));
    return others[0] ? `next frees when session ${others[0].id} ends` : "";
  }

  /** A PNode reports another hash than the one that stands: somebody computed wrongly. */
  disagreed(request: DurableRequest): void {
    const { session, vnode, pnode, epoch, step } = request;
    const detail = `its state after step ${step} differs from the one that was recorded before`;
    this.#context.tasks.run(`the disagreement about ${vnode}`, () =>
      noteFailure(this.#context, this.#needs.rooms, { session, vnode, pnode, epoch, detail }),
    );
  }

  /** Moves the recovery line as far as the records allow. */
  async advance(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const session = mirror.get(key.session(id));
    if (!session || !isLive(session)) return;
    if (recoveryLine(session, this.records(session)) === session.line) return;
    await this.#moveLine(id);
  }

  /** The line moves on what the store holds now: the mirror may miss that a state was taken back. */
  async #moveLine(id: SessionId): Promise<void> {
    const { mirror, world, events } = this.#context;
    const fresh = await readSession(this.#context, id);
    if (fresh === undefined || !isLive(fresh.session)) return;
    const { session, records } = fresh;
    const line = recoveryLine(session, records);
    if (line < session.line) await goBack(this.#context, id);
    if (line <= session.line) return;
    const roots = stepRoots(session, records, session.line, line);
    await this.#writeRoots(session, line, roots);
    const best = this.#best(session, line);
    const done = line === session.identity.steps;
    const ranMs = session.ranMs + this.#takeRunning(id);
    const { written } = await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current) || current.line !== session.line || current.turn !== session.turn)
        return undefined;
      const stepRoot = roots.at(-1)?.step === line ? (roots.at(-1)?.root as string) : current.stepRoot;
      const moved = { ...current, line, lineBefore: current.line, stepRoot, ranMs, ...(best ? { best } : {}) };
      return done ? { ...moved, status: "done" as const, reason: "", endedWallMs: world.clock.wallMs() } : moved;
    });
    if (written && done)
      events.emit("info", "session.done", `session ${id} is done after ${line} steps`, { session: id, step: line });
  }

  async #writeRoots(session: SessionRecord, line: number, roots: StepRecord["roots"]): Promise<void> {
    const { mirror, world, events } = this.#context;
    const name = key.step(session.id, line);
    const { written } = await createItem<StepRecord>(mirror.store, name, { session: session.id, line, roots }, world);
    if (written) return;
    const known = new Map(
      (await readItem<StepRecord>(mirror.store, name))?.record.roots.map(({ step, root }) => [step, root]),
    );
    for (const { step, root } of roots) {
      if (known.get(step) === undefined || known.get(step) === root) continue;
      events.emit(
        "error",
        "session.disagreement",
        `session ${session.id}: step ${step} has the root ${known.get(step)} and now ${root}`,
        {
          session: session.id,
          step,
        },
      );
    }
  }

  #best(session: SessionRecord, line: number): SessionRecord["best"] {
    const loss = this.#needs.metrics.latest(session.id, "validation_loss", session.line + 1, line);
    if (loss === undefined || (session.best && session.best.loss <= loss)) return session.best;
    return { step: line, loss };
  }

  #takeRunning(id: SessionId): number {
    const nowMs = this.#context.world.clock.monotonicMs();
    const since = this.#runningSinceMs.get(id) ?? nowMs;
    this.#runningSinceMs.set(id, nowMs);
    return nowMs - since;
  }

  async #endIfOutOfTime(session: SessionRecord): Promise<void> {
    const { mirror, world, events } = this.#context;
    const limitMs = session.requirements.maxRuntimeSeconds * 1000;
    const since = this.#runningSinceMs.get(session.id) ?? world.clock.monotonicMs();
    this.#runningSinceMs.set(session.id, since);
    if (limitMs === 0 || session.ranMs + world.clock.monotonicMs() - since < limitMs) return;
    const reason = `its time of ${session.requirements.maxRuntimeSeconds} s was over after step ${session.line}`;
    await mirror.update(key.session(session.id), (current) =>
      current && isLive(current)
        ? { ...current, status: "done" as const, reason, endedWallMs: world.clock.wallMs() }
        : undefined,
    );
    events.emit("info", "session.done", `session ${session.id} ended: ${reason}`, { session: session.id });
  }

  /** Now and then: would a fresh placement be so much faster that moving pays? */
  async rebalance(): Promise<void> {
    for (const session of this.#context.mirror.under(prefix.sessions)) {
      // A session that answers holds caches: moving it would make people wait.
      if (session.status !== "running" || session.serving || !(await this.#needs.leases.hold(session.id))) continue;
      try {
        const plan = await this.#planOf(session);
        await rebalance(this.#context, this.#needs.capacity, this.#needs.rooms, session, this.records(session), plan);
      } catch (thrown) {
        this.#context.world.log("warn", `rebalancing ${session.id} failed: ${messageOf(thrown)}`, {
          session: session.id,
        });
      }
    }
  }

  async #planOf(session: SessionRecord): Promise<PlacementPlan> {
    const plan = await this.#needs.compiled.plan(session.identity.definition);
    return placementPlan(session.id, plan, session.identity, session.serving !== undefined);
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
