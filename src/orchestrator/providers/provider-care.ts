// Looks after what providers run: finds again what was started, also by orchestrators that died; sees who joined, who is gone
// and who lies; fetches and gives back machines as the autoscaler says. Of several orchestrators the one that holds a
// provider's lease does it, and only if it was started for that kind of provider.

import { messageOf } from "../../core/errors.ts";
import type { KeyId, PNodeId } from "../../core/ids.ts";
import { base32 } from "../../core/keys.ts";
import { formatInviteLink } from "../../protocol/identity/invite-link.ts";
import { openProvider } from "../../providers/kinds.ts";
import type { Offer, Provider, ProviderSettings, ProviderTools, Seen, Wanted } from "../../providers/provider.ts";
import { autoscale, type Scaled } from "../../scheduler/autoscale.ts";
import type { Context } from "../context.ts";
import type { Members } from "../fleet/attached/members.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { Scheduling } from "../jobs/scheduling.ts";
import { costOf, type InstanceRecord, isThere, type OfferHistory, type ProviderRecord } from "../records/providers.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Controller } from "../workloads/controller.ts";
import type { Leases } from "../workloads/leases.ts";
import { instanceStep, type Step, unclearMs } from "./instance-step.ts";
import { afterBroken, afterEnd, afterJoin, nothingLearned } from "./learned.ts";
import { bootMsOf, scaleView } from "./scale-view.ts";

/** What an orchestrator may do for providers on its machine. */
export interface ProviderRights {
  readonly kinds: readonly string[];
  readonly tools: ProviderTools;
}

export interface ProviderCareNeeds {
  readonly capacity: Capacity;
  readonly leases: Leases;
  readonly members: Members;
  readonly presence: Presence;
  readonly controller: Controller;
  readonly scheduling: Scheduling;
  readonly rights: ProviderRights;
  networkKey(): KeyId | undefined;
}

/** An invitation that nobody used is worth nothing afterwards; clusters' queues may be long. */
const inviteMs = 6 * 3_600_000;
/** Somebody who carries our label and has no record is ended after this. */
const strangerMs = 10 * 60_000;
const endedKeptMs = 24 * 3_600_000;
const endedKeptMost = 100;
const batchMost = 50;
const offersKeptMs = 60_000;

export class ProviderCare {
  readonly #context: Context;
  readonly #needs: ProviderCareNeeds;
  readonly #misses = new Map<string, number>();
  readonly #idleSinceMs = new Map<string, number>();
  readonly #strangers = new Map<string, number>();
  readonly #offersAtMs = new Map<string, number>();
  /** What the last decision said of work for which nothing is fetched. */
  unmet: Scaled["unmet"] = new Map();

  constructor(context: Context, needs: ProviderCareNeeds) {
    this.#context = context;
    this.#needs = needs;
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
    await this.#scale(new Set(mine.map(({ name }) => name)));
  }

  async #tend(record: ProviderRecord): Promise<void> {
    const { mirror } = this.#context;
    const provider = this.open(record);
    let seen: readonly Seen[];
    try {
      await this.#renewOffers(record, provider);
      seen = await provider.list();
    } catch (thrown) {
      return this.#problem(record.name, messageOf(thrown));
    }
    await this.#problem(record.name, "");
    const byId = new Map(seen.map((one) => [one.instance, one]));
    for (const instance of this.#instancesOf(record.name))
      await this.#step(record, provider, instance, byId.get(instance.id));
    await this.#endStrangers(record, provider, seen);
    // What has ended leaves nothing behind at the provider.
    const over = seen.filter(({ instance, state }) => state === "ended" && !this.#isThere(record.name, instance));
    if (over.length > 0) await this.#tried(record.name, () => provider.stop(over));
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

  /** Said once when it begins and once when it is over. */
  async #problem(name: string, sentence: string): Promise<void> {
    const { mirror, events } = this.#context;
    if ((mirror.get(key.provider(name))?.problem ?? "") === sentence) return;
    const { written } = await mirror.update(key.provider(name), (current) => {
      if (!current || (current.problem ?? "") === sentence) return undefined;
      const { problem: _, ...rest } = current;
      return sentence === "" ? rest : { ...rest, problem: sentence };
    });
    if (!written) return;
    if (sentence === "") events.emit("info", "provider.well", `provider ${name} works again`);
    else events.emit("warn", "provider.problem", `provider ${name}: ${sentence}`);
  }

  async #tried(name: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (thrown) {
      await this.#problem(name, messageOf(thrown));
      return false;
    }
  }

  async #step(
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
    const { capacity } = this.#needs;
    const room = this.#context.mirror.get(key.room(pnode));
    const life = this.#context.mirror.get(key.pnode(pnode))?.life;
    const isClaimed = room?.life === life && Object.keys(room?.claims ?? {}).length > 0;
    return capacity.vnodesOn(pnode).size === 0 && !isClaimed;
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
        await this.#learn(name, offer.name, (before) => afterJoin(before, step.bootMs));
        events.emit("info", "provider.joined", `${about} has joined`, { ...(pnode && { pnode }) });
        return;
      case "end":
        if (step.blame) await this.#blame(name, offer.name, step.why);
        if (seen && !(await this.#tried(name, () => provider.stop([seen])))) return;
        await this.#change(instance, {
          status: "ending",
          endingWallMs: nowMs,
          detail: step.why,
          ...(pnode && { pnode }),
        });
        events.emit(step.blame ? "warn" : "info", "provider.ending", `${about} is ended: ${step.why}`);
        return;
      case "hurry":
        if (seen) await this.#tried(name, () => provider.stop([seen], true));
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
    if (blame) await this.#blame(name, offer.name, detail);
    const joinedMs = joinedWallMs > 0 ? nowMs - joinedWallMs : 0;
    if (joinedMs > 0) await this.#learn(name, offer.name, (before) => afterEnd(before, joinedMs, lost === true));
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

  async #learn(provider: string, offer: string, next: (before: OfferHistory) => OfferHistory): Promise<void> {
    await this.#context.mirror.update(key.provider(provider), (current) =>
      current
        ? { ...current, learned: { ...current.learned, [offer]: next(current.learned[offer] ?? nothingLearned) } }
        : undefined,
    );
  }

  #blame(provider: string, offer: string, why: string): Promise<void> {
    const nowMs = this.#context.world.clock.wallMs();
    return this.#learn(provider, offer, (before) => afterBroken(before, nowMs, why));
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
      if (await this.#tried(record.name, () => provider.stop([one], nowMs - sinceMs > 2 * unclearMs)))
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

  async #scale(mine: ReadonlySet<string>): Promise<void> {
    if (mine.size === 0) return;
    const { capacity, scheduling } = this.#needs;
    const nowMs = this.#context.world.clock.monotonicMs();
    const idleMs = ({ id }: InstanceRecord) => {
      const sinceMs = this.#idleSinceMs.get(id);
      return sinceMs === undefined ? undefined : nowMs - sinceMs;
    };
    const { starts, drains, keeps, unmet } = autoscale(scaleView(this.#context, { capacity, scheduling, idleMs }));
    this.unmet = unmet;
    for (const { machine, why } of drains) await this.#drain(machine, mine, why);
    for (const machine of keeps) await this.#drain(machine, mine, undefined);
    const groups = Map.groupBy(
      starts.filter(({ provider }) => mine.has(provider)),
      ({ provider, offer }) => `${provider} ${offer}`,
    );
    for (const group of groups.values())
      await this.#start(group[0]?.provider ?? "", group[0]?.offer ?? "", Math.min(batchMost, group.length));
  }

  /** Its work goes elsewhere, or, without a reason, it may get work again. */
  async #drain(id: string, mine: ReadonlySet<string>, why: string | undefined): Promise<void> {
    const { mirror, events } = this.#context;
    const instance = mirror.under(prefix.instances).find((one) => one.id === id);
    if (!instance?.pnode || !mine.has(instance.provider)) return;
    const { pnode } = instance;
    const status = why === undefined ? ("joined" as const) : ("draining" as const);
    const { written } = await mirror.update(key.instance(instance.provider, id), (current) => {
      if (!current || !(current.status === "joined" || current.status === "draining") || current.status === status)
        return undefined;
      return { ...current, status, detail: why ?? "" };
    });
    if (!written) return;
    await mirror.update(key.pnode(pnode), (current) => {
      if (!current || (current.drained ?? false) === (why !== undefined)) return undefined;
      const { drained: _, ...rest } = current;
      return why === undefined ? rest : { ...rest, drained: true };
    });
    this.#needs.controller.fleetChanged(pnode, true);
    const words = why === undefined ? "is needed after all" : `is given back: ${why}`;
    events.emit("info", "provider.drain", `${id} of provider ${instance.provider} ${words}`, { pnode });
  }

  async #start(name: string, offerName: string, count: number): Promise<void> {
    const { mirror, world, events } = this.#context;
    const record = mirror.get(key.provider(name));
    const offer = record?.found.find((one) => one.name === offerName);
    if (!record || !offer || record.removing) return;
    const batch = base32(world.chance.bytes(5));
    const wanted: Wanted[] = [];
    for (let index = 0; index < count; index++) wanted.push(await this.#want(record, offer, `${batch}-${index}`));
    const nowMs = world.clock.wallMs();
    await mirror.update(key.provider(name), (current) => current && { ...current, lastStartWallMs: nowMs });
    events.emit("info", "provider.start", `provider ${name} is asked for ${count} machine(s) of offer ${offerName}`);
    try {
      await this.open(record).start(offer, wanted);
    } catch (thrown) {
      // What began shows in the next list; the others are given up after a while.
      await this.#problem(name, messageOf(thrown));
      await this.#blame(name, offerName, `it could not be started: ${messageOf(thrown)}`);
      return;
    }
    for (const { instance } of wanted)
      await mirror.update(key.instance(name, instance), (current) =>
        current?.status === "wanted"
          ? { ...current, status: "started" as const, startedWallMs: world.clock.wallMs() }
          : undefined,
      );
  }

  /** The record, then whatever follows. */
  async #want({ name }: ProviderRecord, offer: Offer, id: string): Promise<Wanted> {
    const { mirror, world } = this.#context;
    const { members, presence, networkKey } = this.#needs;
    const { token } = await members.invite(1, inviteMs, `machine ${id} of provider ${name}`);
    const fresh: InstanceRecord = {
      ...{ provider: name, id, offer, invite: token.split("-", 1)[0] as string, status: "wanted" },
      wantedWallMs: world.clock.wallMs(),
      ...{ startedWallMs: 0, joinedWallMs: 0, endingWallMs: 0, endedWallMs: 0, detail: "" },
    };
    await mirror.update(key.instance(name, id), (current) => (current ? undefined : fresh));
    const link = formatInviteLink({
      addresses: presence.addresses(),
      key: networkKey() ?? ("" as KeyId),
      token,
      name: "",
    });
    return { instance: id, link, name: `${name}-${id}` };
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

/** The last sentence of a log, whatever form its lines have. */
function lastWords(log: string): string {
  const line = log.trim().split("\n").at(-1)?.trim() ?? "";
  const said = /"message":"((?:[^"\\]|\\.)*)"/.exec(line)?.[1] ?? line;
  return said.slice(0, 300);
}
