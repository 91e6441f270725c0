// PNodes that are alive but cannot reach each other: behind a router, a firewall, a broken cable. Their VNodes would
// wait for each other for ever, so one of the two is left out for a while and its VNodes go elsewhere.

import type { PNodeId } from "../../../core/ids.ts";
import type { Heartbeat } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Context } from "../../context.ts";
import { isOpen, type PNodeRecord } from "../../records/machines.ts";
import { pnodeName } from "../../records/names.ts";
import { key, prefix } from "../../records/store-keys.ts";
import { workloadsIn } from "../../records/workloads.ts";
import type { Attachment } from "../attached/attachment.ts";

export interface ReachabilityHooks {
  /** Whether a PNode is attached here, and sound. */
  isHere(pnode: PNodeId): boolean;
  onFleetChange(pnode: PNodeId): void;
}

/** Links break and come back; this long is more than a moment. */
const failingMsLeast = 8_000;
/** How long one is left out at first; doubles with every time that its peers complain again. */
const leftOutMs = 300_000;
const leftOutMsMost = 3_600_000;
/** Where others have no room, one that may be reached again is tried sooner. */
const leftOutScarceMs = 60_000;
/** Complaints are held against a PNode for this long. */
const rememberedMs = 600_000;
const linksMax = 1_000;

export class Reachability {
  readonly #context: Context;
  readonly #hooks: ReachabilityHooks;
  /** Who could not reach whom or the other way round, both ways, and until when that is remembered. */
  readonly #apart = new Map<PNodeId, Map<PNodeId, number>>();
  /** Whom PNodes that are attached here cannot reach now. */
  readonly #complaints = new Map<PNodeId, ReadonlySet<PNodeId>>();
  /** Since when one is left out, if it is, and how often it has been. */
  readonly #leftOut = new Map<PNodeId, { sinceMs: number | undefined; times: number }>();
  #judging = false;

  constructor(context: Context, hooks: ReachabilityHooks) {
    this.#context = context;
    this.#hooks = hooks;
  }

  hear({ pnode }: Attachment, { links }: Heartbeat): void {
    const record = this.#record(pnode);
    if (record?.unreachable) this.#reconsider(record);
    else this.#isBack(pnode);
    const failing = links
      .slice(0, linksMax)
      .filter((link) => link.failingMs >= failingMsLeast && this.#record(link.pnode as PNodeId) !== undefined)
      .map((link) => link.pnode as PNodeId);
    if (failing.length === 0) {
      this.#complaints.delete(pnode);
      return;
    }
    this.#complaints.set(pnode, new Set(failing));
    for (const other of failing) this.#remember(pnode, other);
    for (const other of failing) this.#judge(pnode, other);
  }

  #isBack(pnode: PNodeId): void {
    const known = this.#leftOut.get(pnode);
    if (known) known.sinceMs = undefined;
  }

  #record(pnode: PNodeId): PNodeRecord | undefined {
    return this.#context.mirror.get(key.pnode(pnode));
  }

  #remember(one: PNodeId, other: PNodeId): void {
    const untilMs = this.#context.world.clock.monotonicMs() + rememberedMs;
    for (const [a, b] of [
      [one, other],
      [other, one],
    ] as const) {
      const known = this.#apart.get(a);
      if (known) known.set(b, untilMs);
      else this.#apart.set(a, new Map([[b, untilMs]]));
    }
  }

  /** With how many others it had trouble lately. */
  #trouble(pnode: PNodeId): number {
    const nowMs = this.#context.world.clock.monotonicMs();
    const known = this.#apart.get(pnode);
    for (const [other, untilMs] of known ?? []) if (untilMs < nowMs) known?.delete(other);
    if (known?.size === 0) this.#apart.delete(pnode);
    return known?.size ?? 0;
  }

  #judge(caller: PNodeId, called: PNodeId): void {
    const [one, other] = [this.#record(caller), this.#record(called)];
    // One that is lost, closed or left out already is no neighbour for much longer.
    if (this.#judging || !one || !other || !isOpen(one) || !isOpen(other)) return;
    if (this.#context.mirror.under(prefix.pnodes).filter(isOpen).length < 2) return;
    const blamed = this.#blame(caller, called);
    const complains = blamed === called ? caller : called;
    this.#judging = true;
    this.#context.tasks.run(`leaving ${blamed} out`, async () => {
      try {
        await this.#leaveOut(blamed, complains);
      } finally {
        this.#judging = false;
      }
    });
  }

  /** Whoever has trouble with more peers; else the one that is called in vain but has nothing to complain about. */
  #blame(caller: PNodeId, called: PNodeId): PNodeId {
    const difference = this.#trouble(caller) - this.#trouble(called);
    if (difference !== 0) return difference > 0 ? caller : called;
    if (this.#hooks.isHere(called) && !this.#complaints.get(called)?.has(caller)) return called;
    // Both complain, or who knows: whichever orchestrator decides, it comes to the same.
    return caller > called ? caller : called;
  }

  async #leaveOut(pnode: PNodeId, peer: PNodeId): Promise<void> {
    const { mirror, events, world } = this.#context;
    const names = [pnode, peer].map((id) => pnodeName(mirror, id));
    const { written } = await mirror.update(key.pnode(pnode), (current) =>
      current && isOpen(current) ? { ...current, unreachable: true } : undefined,
    );
    if (!written) return;
    const times = (this.#leftOut.get(pnode)?.times ?? 0) + 1;
    this.#leftOut.set(pnode, { sinceMs: world.clock.monotonicMs(), times });
    const message = `PNodes ${names[0]} and ${names[1]} do not reach each other: what ${names[0]} hosts goes elsewhere`;
    events.emit("warn", "pnode.unreachable", message, { pnode });
    this.#hooks.onFleetChange(pnode);
  }

  /** At every heartbeat of one that is left out. */
  #reconsider(record: PNodeRecord): void {
    const { mirror, world, tasks, events } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const known = this.#leftOut.get(record.id) ?? { sinceMs: nowMs, times: 1 };
    known.sinceMs ??= nowMs;
    this.#leftOut.set(record.id, known);
    const outMs = nowMs - known.sinceMs;
    const over = outMs >= Math.min(leftOutMs * 2 ** (known.times - 1), leftOutMsMost);
    const needed = this.#isScarce() && (outMs >= leftOutScarceMs || !this.#anyOpen());
    if (!over && !needed) return;
    tasks.run(`trying ${record.id} again`, async () => {
      const { written } = await mirror.update(key.pnode(record.id), (current) => {
        if (!current?.unreachable) return undefined;
        const { unreachable: _, ...rest } = current;
        return rest;
      });
      if (!written) return;
      events.emit("info", "pnode.reachable", `PNode ${record.name} takes work again: its peers may reach it now`, {
        pnode: record.id,
      });
      this.#hooks.onFleetChange(record.id);
    });
  }

  #isScarce(): boolean {
    return workloadsIn(this.#context.mirror).some(({ status }) => status === "waiting");
  }

  #anyOpen(): boolean {
    return this.#context.mirror.under(prefix.pnodes).some(isOpen);
  }
}
