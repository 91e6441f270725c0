// Looks after providers: renews what they offer, lists what runs there and has each machine looked after, ends what nobody knows,
// forgets what is long over, and lets machines be fetched and given back. Of several orchestrators the one that holds a
// provider's lease does it, and only if it was started for that kind of provider.

import { messageOf } from "../../core/errors.ts";
import { openProvider } from "../../providers/kinds.ts";
import type { Provider, ProviderSettings, ProviderTools, Seen } from "../../providers/provider.ts";
import type { Scaled } from "../../scheduler/scale-types.ts";
import type { Context } from "../context.ts";
import { costOf, type InstanceRecord, isThere, type ProviderRecord } from "../records/providers.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Leases } from "../workloads/leases.ts";
import { Fetching, type FetchingNeeds } from "./fetching.ts";
import { InstanceCare } from "./instance-care.ts";
import { unclearMs } from "./instance-step.ts";
import { ProviderNotes } from "./provider-notes.ts";

/** What an orchestrator may do for providers on its machine. */
export interface ProviderRights {
  readonly kinds: readonly string[];
  readonly tools: ProviderTools;
}

export interface ProviderCareNeeds extends FetchingNeeds {
  readonly leases: Leases;
  readonly rights: ProviderRights;
}

/** Somebody who carries our label and has no record is ended after this. */
const strangerMs = 10 * 60_000;
const endedKeptMs = 24 * 3_600_000;
const endedKeptMost = 100;
const offersKeptMs = 60_000;

export class ProviderCare {
  readonly #context: Context;
  readonly #needs: ProviderCareNeeds;
  readonly #notes: ProviderNotes;
  readonly #instances: InstanceCare;
  readonly #fetching: Fetching;
  readonly #strangers = new Map<string, number>();
  readonly #offersAtMs = new Map<string, number>();

  constructor(context: Context, needs: ProviderCareNeeds) {
    this.#context = context;
    this.#needs = needs;
    this.#notes = new ProviderNotes(context);
    this.#instances = new InstanceCare(context, needs.capacity, this.#notes);
    this.#fetching = new Fetching(context, {
      ...needs,
      notes: this.#notes,
      open: (record) => this.open(record),
      idleMs: (instance) => this.#instances.idleMs(instance),
    });
  }

  /** What the last decision said of work for which nothing is fetched. */
  get unmet(): Scaled["unmet"] {
    return this.#fetching.unmet;
  }

  open(record: ProviderRecord): Provider {
    return openProvider(this.settingsOf(record), this.#needs.rights.tools);
  }

  settingsOf({
    name,
    kind,
    parameters,
    offers,
  }: Pick<ProviderRecord, "name" | "kind" | "parameters" | "offers">): ProviderSettings {
    return { provider: name, cluster: clusterOf(this.#needs.networkKey() ?? ""), kind, parameters, offers };
  }

  may(kind: string): boolean {
    return this.#needs.rights.kinds.includes(kind);
  }

  /** Now and then. */
  async look(): Promise<void> {
    const mine: ProviderRecord[] = [];
    for (const record of this.#context.mirror.under(prefix.providers))
      if (this.may(record.kind) && (await this.#needs.leases.holdProvider(record.name))) mine.push(record);
    await Promise.all(mine.map((record) => this.#tend(record)));
    await this.#fetching.scale(new Set(mine.map(({ name }) => name)));
  }

  async #tend(record: ProviderRecord): Promise<void> {
    const { mirror } = this.#context;
    const provider = this.open(record);
    let seen: readonly Seen[];
    try {
      await this.#renewOffers(record, provider);
      seen = await provider.list();
    } catch (thrown) {
      return this.#notes.problem(record.name, messageOf(thrown));
    }
    await this.#notes.problem(record.name, "");
    const byId = new Map(seen.map((one) => [one.instance, one]));
    for (const instance of this.#instancesOf(record.name))
      await this.#instances.step(record, provider, instance, byId.get(instance.id));
    await this.#endStrangers(record, provider, seen);
    // What has ended leaves nothing behind at the provider.
    const over = seen.filter(({ instance, state }) => state === "ended" && !this.#isThere(record.name, instance));
    if (over.length > 0) await this.#notes.tried(record.name, () => provider.stop(over));
    await this.#forgetOld(record.name);
    const left = mirror.get(key.provider(record.name));
    if (left?.removing && this.#instancesOf(record.name).every((one) => !isThere(one))) await this.#forget(record.name);
  }

  #instancesOf(provider: string): InstanceRecord[] {
    return this.#context.mirror.under(prefix.instancesOf(provider));
  }

  #isThere(provider: string, id: string): boolean {
    const record = this.#context.mirror.get(key.instance(provider, id));
    return record !== undefined && isThere(record);
  }

  async #renewOffers(record: ProviderRecord, provider: Provider): Promise<void> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const atMs = this.#offersAtMs.get(record.name);
    if (atMs !== undefined && nowMs - atMs < offersKeptMs && record.found.length > 0) return;
    const found = await provider.offers();
    this.#offersAtMs.set(record.name, nowMs);
    const isSame = (current: ProviderRecord) => JSON.stringify(current.found) === JSON.stringify(found);
    await mirror.update(key.provider(record.name), (current) =>
      !current || isSame(current) ? undefined : { ...current, found },
    );
  }

  /** The record is written before the start: whoever has none was started for a network of the past. */
  async #endStrangers(record: ProviderRecord, provider: Provider, seen: readonly Seen[]): Promise<void> {
    const { mirror, world, events } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const running = seen.filter(({ state }) => state !== "ended");
    const present = new Set(running.map(({ instance }) => `${record.name}/${instance}`));
    for (const known of this.#strangers.keys())
      if (known.startsWith(`${record.name}/`) && !present.has(known)) this.#strangers.delete(known);
    for (const one of running) {
      const name = `${record.name}/${one.instance}`;
      const known =
        mirror.get(key.instance(record.name, one.instance)) ??
        (await mirror.read(key.instance(record.name, one.instance)));
      if (known && isThere(known)) continue;
      const sinceMs = this.#strangers.get(name) ?? nowMs;
      this.#strangers.set(name, sinceMs);
      // One that ended by its record, and lives, needs no grace.
      if (known === undefined && nowMs - sinceMs < strangerMs) continue;
      if (await this.#notes.tried(record.name, () => provider.stop([one], nowMs - sinceMs > 2 * unclearMs)))
        events.emit("warn", "provider.stranger", `${name} runs and nobody knows it: it is ended`);
    }
  }

  async #forgetOld(provider: string): Promise<void> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.wallMs();
    const ended = this.#instancesOf(provider)
      .filter((one) => !isThere(one))
      .sort((a, b) => a.endedWallMs - b.endedWallMs);
    const old = ended.filter(
      (one, index) => nowMs - one.endedWallMs > endedKeptMs || index < ended.length - endedKeptMost,
    );
    for (const one of old) {
      // Counted first, and noted which: after a crash in between it is not counted again.
      await mirror.update(key.provider(provider), (current) =>
        current && current.countedLast !== one.id
          ? { ...current, spent: current.spent + costOf(one, nowMs), countedLast: one.id }
          : undefined,
      );
      await mirror.remove(key.instance(provider, one.id), (current) => !isThere(current));
    }
  }

  async #forget(provider: string): Promise<void> {
    const { mirror, events } = this.#context;
    for (const one of this.#instancesOf(provider)) await mirror.remove(key.instance(provider, one.id));
    if (await mirror.remove(key.provider(provider), ({ removing }) => removing === true))
      events.emit("info", "provider.removed", `provider ${provider} is removed, and nothing of it runs any more`);
  }
}

/** Of a network's key: enough to tell networks apart, and short enough for names. */
function clusterOf(networkKey: string): string {
  return (
    (networkKey || "network")
      .toLowerCase()
      .replace(/[^a-z0-9]/g, "")
      .slice(0, 8) || "network"
  );
}
