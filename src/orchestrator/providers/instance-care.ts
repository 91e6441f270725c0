// Looks after one machine that was fetched: performs what instance-step.ts decides of it, and knows since when it has nothing to do.

import type { PNodeId } from "../../core/ids.ts";
import type { Provider, Seen } from "../../providers/provider.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { type InstanceRecord, isThere, type ProviderRecord } from "../records/providers.ts";
import { key, prefix } from "../records/store-keys.ts";
import { instanceStep, type Step } from "./instance-step.ts";
import { afterEnd, afterJoin } from "./learned.ts";
import type { ProviderNotes } from "./provider-notes.ts";
import { bootMsOf } from "./scale-view.ts";

export class InstanceCare {
  readonly #context: Context;
  readonly #capacity: Capacity;
  readonly #notes: ProviderNotes;
  /** How many lists in a row did not have it. */
  readonly #misses = new Map<string, number>();
  readonly #idleSinceMs = new Map<string, number>();

  constructor(context: Context, capacity: Capacity, notes: ProviderNotes) {
    this.#context = context;
    this.#capacity = capacity;
    this.#notes = notes;
  }

  /** How long it has had nothing to do; undefined if it has. */
  idleMs({ id }: InstanceRecord): number | undefined {
    const sinceMs = this.#idleSinceMs.get(id);
    return sinceMs === undefined ? undefined : this.#context.world.clock.monotonicMs() - sinceMs;
  }

  /** `seen`: how its provider sees it, if it does. */
  async step(
    record: ProviderRecord,
    provider: Provider,
    instance: InstanceRecord,
    seen: Seen | undefined,
  ): Promise<void> {
    if (!isThere(instance)) return;
    const { world } = this.#context;
    const misses = seen ? 0 : (this.#misses.get(instance.id) ?? 0) + 1;
    this.#misses.set(instance.id, misses);
    const pnode = this.#pnodeOf(instance);
    const isEmpty = pnode === undefined || this.#isEmpty(pnode.id);
    this.#noteIdle(instance.id, isEmpty);
    const nowMs = world.clock.wallMs();
    const step = instanceStep(instance, {
      nowMs,
      seen,
      misses,
      pnode,
      isEmpty,
      bootMs: bootMsOf(record, instance.offer),
      isUnwanted: record.removing === true,
    });
    await this.#perform(provider, instance, seen, step, pnode?.id);
  }

  #isEmpty(pnode: PNodeId): boolean {
    const room = this.#context.mirror.get(key.room(pnode));
    const life = this.#context.mirror.get(key.pnode(pnode))?.life;
    const isClaimed = room?.life === life && Object.keys(room?.claims ?? {}).length > 0;
    return this.#capacity.vnodesOn(pnode).size === 0 && !isClaimed;
  }

  #noteIdle(id: string, isEmpty: boolean): void {
    if (!isEmpty) this.#idleSinceMs.delete(id);
    else if (!this.#idleSinceMs.has(id)) this.#idleSinceMs.set(id, this.#context.world.clock.monotonicMs());
  }

  #pnodeOf(instance: InstanceRecord) {
    const { mirror } = this.#context;
    const id = instance.pnode ?? mirror.under(prefix.members).find(({ invite }) => invite === instance.invite)?.pnode;
    return id && mirror.get(key.pnode(id));
  }

  async #perform(
    provider: Provider,
    instance: InstanceRecord,
    seen: Seen | undefined,
    step: Step,
    pnode: PNodeId | undefined,
  ): Promise<void> {
    const { world, events } = this.#context;
    const nowMs = world.clock.wallMs();
    const { provider: name, offer, id } = instance;
    const about = `${id} of provider ${name} (${offer.name})`;
    switch (step.kind) {
      case "stay":
        if (step.detail !== undefined && step.detail !== instance.detail)
          await this.#change(instance, { detail: step.detail });
        return;
      case "started":
        await this.#change(instance, { status: "started", startedWallMs: instance.startedWallMs || nowMs });
        return;
      case "joined":
        this.#idleSinceMs.set(id, world.clock.monotonicMs());
        await this.#change(instance, { status: "joined", joinedWallMs: nowMs, detail: "", ...(pnode && { pnode }) });
        await this.#notes.learn(name, offer.name, (before) => afterJoin(before, step.bootMs));
        events.emit("info", "provider.joined", `${about} has joined`, { ...(pnode && { pnode }) });
        return;
      case "end":
        if (step.blame) await this.#notes.blame(name, offer.name, step.why);
        if (seen && !(await this.#notes.tried(name, () => provider.stop([seen])))) return;
        await this.#change(instance, {
          status: "ending",
          endingWallMs: nowMs,
          detail: step.why,
          ...(pnode && { pnode }),
        });
        events.emit(step.blame ? "warn" : "info", "provider.ending", `${about} is ended: ${step.why}`);
        return;
      case "hurry":
        if (seen) await this.#notes.tried(name, () => provider.stop([seen], true));
        return;
      case "gone":
        return this.#gone(provider, instance, seen, step);
    }
  }

  async #gone(
    provider: Provider,
    instance: InstanceRecord,
    seen: Seen | undefined,
    { why, blame, lost }: Extract<Step, { kind: "gone" }>,
  ): Promise<void> {
    const { world, mirror, events } = this.#context;
    const nowMs = world.clock.wallMs();
    const { provider: name, offer, id, joinedWallMs } = instance;
    const words = seen && blame ? lastWords(await provider.logs(seen).catch(() => "")) : "";
    const detail = words === "" ? why : `${why}; its last words: ${words}`;
    if (blame) await this.#notes.blame(name, offer.name, detail);
    const joinedMs = joinedWallMs > 0 ? nowMs - joinedWallMs : 0;
    if (joinedMs > 0 || lost)
      await this.#notes.learn(name, offer.name, (before) => afterEnd(before, joinedMs, lost === true));
    await this.#change(instance, { status: "ended", endedWallMs: nowMs, detail });
    await mirror.remove(key.invite(instance.invite));
    this.#misses.delete(id);
    this.#idleSinceMs.delete(id);
    events.emit(
      lost || blame ? "warn" : "info",
      "provider.ended",
      `${id} of provider ${name} (${offer.name}) has ended: ${detail}`,
    );
  }

  #change(instance: InstanceRecord, change: Partial<InstanceRecord>): Promise<unknown> {
    return this.#context.mirror.update(key.instance(instance.provider, instance.id), (current) =>
      current && isThere(current) ? { ...current, ...change } : undefined,
    );
  }
}

/** The last sentence of a log, whatever form its lines have. */
function lastWords(log: string): string {
  const line = log.trim().split("\n").at(-1)?.trim() ?? "";
  const said = /"message":"((?:[^"\\]|\\.)*)"/.exec(line)?.[1] ?? line;
  return said.slice(0, 300);
}
