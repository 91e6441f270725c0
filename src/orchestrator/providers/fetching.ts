// Fetches machines and gives them back as the autoscaler says. A machine's record is written before it is asked for, so whoever
// finds it later, also after a crash of ours, knows whose it is.

import { messageOf } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { base32 } from "../../core/keys.ts";
import { formatInviteLink } from "../../protocol/identity/invite-link.ts";
import type { Offer, Provider, Wanted } from "../../providers/provider.ts";
import { autoscale } from "../../scheduler/autoscale.ts";
import type { Scaled } from "../../scheduler/scale-types.ts";
import type { Context } from "../context.ts";
import type { Members } from "../fleet/attached/members.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { Scheduling } from "../jobs/scheduling.ts";
import type { InstanceRecord, ProviderRecord } from "../records/providers.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Controller } from "../workloads/controller.ts";
import type { ProviderNotes } from "./provider-notes.ts";
import { scaleView } from "./scale-view.ts";

export interface FetchingNeeds {
  readonly capacity: Capacity;
  readonly members: Members;
  readonly presence: Presence;
  readonly controller: Controller;
  readonly scheduling: Scheduling;
  networkKey(): KeyId | undefined;
}

interface Surroundings extends FetchingNeeds {
  readonly notes: ProviderNotes;
  readonly open: (record: ProviderRecord) => Provider;
  readonly idleMs: (instance: InstanceRecord) => number | undefined;
}

/** An invitation that nobody used is worth nothing afterwards; clusters' queues may be long. */
const inviteMs = 6 * 3_600_000;
const batchMost = 50;

export class Fetching {
  readonly #context: Context;
  readonly #needs: Surroundings;
  /** What the last decision said of work for which nothing is fetched. */
  unmet: Scaled["unmet"] = new Map();

  constructor(context: Context, needs: Surroundings) {
    this.#context = context;
    this.#needs = needs;
  }

  /** Of the providers that this orchestrator looks after now. */
  async scale(mine: ReadonlySet<string>): Promise<void> {
    if (mine.size === 0) return;
    const { capacity, scheduling, idleMs } = this.#needs;
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
      await this.#needs.open(record).start(offer, wanted);
    } catch (thrown) {
      // What began shows in the next list; the others are given up after a while.
      await this.#needs.notes.problem(name, messageOf(thrown));
      await this.#needs.notes.blame(name, offerName, `it could not be started: ${messageOf(thrown)}`);
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
