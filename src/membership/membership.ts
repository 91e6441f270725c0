// One member of the network: performs what swim.ts decides, answers others, remembers on disk whom it knew. A PNode takes part
// from the moment the network's key has permitted it, also after a restart with no orchestrator in sight.

import { sameBytes } from "../core/bytes.ts";
import { fail, messageOf } from "../core/errors.ts";
import type { KeyId } from "../core/ids.ts";
import type { Identity, KeyChecks } from "../core/keys.ts";
import { type Cancel, every, type World } from "../core/world.ts";
import { GossipService, type SignedRecord } from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import type { Network, ServedService } from "../protocol/network.ts";
import { Asking } from "./asking.ts";
import { CallBacks } from "./call-backs.ts";
import { type KeptFile, keptBytes, parseKept } from "./kept.ts";
import { meet } from "./meeting.ts";
import { type Facts, isHere, type Known, type Member, type MemberId, type News, type Standing } from "./member.ts";
import { NetworkKey, type Shown, shownFromWire } from "./network-key.ts";
import { type PermitFacts, permitSeconds, permittedUntilOf, recordOf, seal } from "./records.ts";
import { Roster } from "./roster.ts";
import { gossipService, relaysAmong, routeTo, type Taking } from "./service.ts";
import { type Gossip, type MembershipEffect, type MembershipEvent, Swim, type SwimOptions } from "./swim.ts";
import { Comparison } from "./sync.ts";
import { type MembershipTimings, membershipTimings } from "./timings.ts";
import { answerFromWire, Reader, syncToWire } from "./wire.ts";

export interface MembershipOptions {
  readonly id: MemberId;
  readonly role: "pnode" | "orchestrator";
  readonly incarnation: string;
  /** An orchestrator's is the network's, which may be replaced while it runs. */
  readonly identity: Identity;
  readonly keys: KeyChecks;
  /** The key by which this member has come to know the network. */
  readonly networkKey: KeyId;
  readonly network: Network;
  readonly world: World;
  /** What it tells of itself, as of now. */
  readonly facts: () => Facts;
  /** Places to ask besides those on disk, as "host:port#key": orchestrators, mostly. */
  readonly contacts: () => readonly string[];
  readonly file?: KeptFile | undefined;
  /** At orchestrators: a permit for somebody who may have one. */
  readonly permit?: (id: MemberId) => Promise<PermitFacts | undefined>;
  readonly timings?: Partial<MembershipTimings>;
  /** The production one if absent. */
  readonly openGossip?: (options: SwimOptions) => Gossip;
}

export type StandingListener = (member: Member, standing: Standing) => void;

const factsMs = 5_000;
const saveMs = 30_000;
/** The first that a process hears of come together. */
const firstSaveMs = 500;
const syncTimeoutMs = 10_000;
/** Clocks of members differ; a permit holds a day longer than it says. */
const skewSeconds = 24 * 3_600;

export class Membership {
  readonly #options: MembershipOptions;
  readonly #timings: MembershipTimings;
  readonly service: ServedService;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<StandingListener>();
  readonly #callBacks = new CallBacks();
  readonly #asking: Asking;
  /** Remembered places to ask. */
  #contacts: readonly string[] = [];
  #permit: PermitFacts | undefined;
  #taking: Taking | undefined;
  #sequence = 1;
  #told: Facts | undefined;
  #toldMs = 0;
  #leaving = false;
  #changed = false;
  #hasMet = false;
  #hasCompared = false;
  #cancels: Cancel[] = [];
  #cancelTick: Cancel = () => {};
  readonly #refused = new Set<string>();

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#timings = { ...membershipTimings, ...options.timings };
    const taking = () => this.#taking;
    const hear = (from: MemberId, news: readonly News[]) => this.#hear(from, news);
    this.#asking = new Asking({ network: options.network, signal: this.#ending.signal, taking, hear });
    this.service = gossipService({
      ...{ world: options.world, network: options.network, role: options.role, permit: options.permit, taking, hear },
      reminded: (record, network) => this.#reminded(record, network),
    });
  }

  /** Takes part at once if the disk or (at an orchestrator) its own key permits it. */
  async start(): Promise<void> {
    const { identity, role, file } = this.#options;
    const kept = await this.#read(file);
    const network = kept && this.#networkKey(kept.network);
    if (kept !== undefined && network !== undefined) {
      this.#sequence = kept.sequence + 1;
      const reader = this.#reader(network, () => undefined);
      this.#contacts = kept.members.flatMap((signed) => {
        const member = reader.record(signed);
        return member === undefined || member.routes.length === 0 ? [] : [routeTo(member)];
      });
      if (kept.permit && role === "pnode") this.admit(kept.permit, kept.network);
    }
    if (role === "orchestrator") this.#take(this.#networkKey(identity) ?? fail("internal", "not the network's key"));
  }

  /** An orchestrator has registered this PNode. */
  admit(permit: PermitFacts, shown: Shown): void {
    const { id, world } = this.#options;
    const known = this.#taking?.networkKey;
    const network = known === undefined ? this.#networkKey(shown) : known.follows(shown) ? known : undefined;
    if (network === undefined || permittedUntilOf(id, permit, network) === undefined) {
      world.log("warn", "an orchestrator gave a permit that does not hold: this machine is unknown to other members");
      return;
    }
    const before = this.#permit;
    const isNew = before === undefined || !sameBytes(before.signature, permit.signature);
    this.#permit = permit;
    if (this.#taking === undefined) this.#take(network);
    else if (isNew) this.#step({ kind: "changed", nowMs: this.#nowMs() });
    // Without it a process that starts while no orchestrator is there would be nobody.
    if (isNew) void this.#save(true);
  }

  /** What it said of itself before it lost its disk: the permit in that is as good as it was. */
  #reminded(record: SignedRecord, shown: Shown): void {
    const { id, role } = this.#options;
    if (role !== "pnode" || this.#taking !== undefined || this.#ending.signal.aborted) return;
    const network =
      this.#networkKey(shown) ?? fail("permission_denied", "this is not the key of this machine's network");
    const former = this.#reader(network, () => undefined).record(record);
    if (former?.id !== id) fail("permission_denied", "this is nothing that this machine has said of itself");
    this.#sequence = Math.max(this.#sequence, former.sequence + 1);
    const { permit } = recordOf(former);
    if (permit) this.admit(permit, shown);
  }

  /** Whether it is here, as far as this member knows. */
  alive(id: MemberId): boolean {
    const { gossip } = this.#taking ?? {};
    if (gossip === undefined) return false;
    const known = gossip.roster.get(id);
    return id === gossip.self.id || (known !== undefined && isHere(known.standing));
  }

  /** Called with every change of somebody's standing or record; gives back what ends that. */
  onChange(listener: StandingListener): Cancel {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Everybody but this one. */
  known(): Known[] {
    return [...(this.#taking?.gossip.roster.all() ?? [])];
  }

  get self(): Member | undefined {
    return this.#taking?.gossip.self;
  }

  /** Addresses of orchestrators that are here, with the network's key. */
  orchestrators(): string[] {
    const { gossip } = this.#taking ?? {};
    if (gossip === undefined) return [];
    return [...gossip.roster.orchestrators].flatMap((id) => {
      const known = gossip.roster.get(id);
      return known === undefined || known.member.routes.length === 0 ? [] : [routeTo(known.member)];
    });
  }

  /** Members that relay for others and can be called without a relay themselves. */
  relays() {
    return relaysAmong(this.known());
  }

  /** `leaving`: in good order, so that nobody looks for it. */
  async stop(leaving: boolean): Promise<void> {
    const { gossip } = this.#taking ?? {};
    if (leaving && gossip !== undefined) {
      this.#leaving = true;
      this.#step({ kind: "changed", nowMs: this.#nowMs() });
      await this.#asking.farewell(gossip, () => this.#options.world.chance.uniform());
    }
    for (const cancel of this.#cancels) cancel();
    this.#cancelTick();
    this.#ending.abort();
    await this.#save(true);
    this.#taking = undefined;
  }

  /** Undefined for a network that this member does not mean. */
  #networkKey(shown: Shown): NetworkKey | undefined {
    const { networkKey, keys, world } = this.#options;
    return NetworkKey.of(networkKey, shown, keys, () => world.clock.wallMs() / 1_000);
  }

  #take(networkKey: NetworkKey): void {
    const { world, openGossip, contacts } = this.#options;
    const roster = new Roster();
    const gossip = (openGossip ?? ((options) => new Swim(options)))({
      renew: (sequence) => this.#seal(sequence, networkKey.id),
      sequence: this.#sequence,
      roster,
      timings: this.#timings,
      uniform: () => world.chance.uniform(),
    });
    const reader = this.#reader(networkKey, (id) => roster.get(id)?.member);
    this.#taking = { gossip, reader, networkKey };
    this.#step({ kind: "tick", nowMs: this.#nowMs() });
    this.#cancels.push(
      every(world.timers, factsMs, () => this.#lookAtFacts()),
      every(world.timers, saveMs, () => this.#save(false)),
    );
    void meet({
      ...{ world, signal: this.#ending.signal, metMs: this.#timings.retryDeadMs * 4 },
      places: () => [...contacts(), ...this.#contacts],
      // Whoever has called it back may be all that it knows, if the answer to its first question was lost.
      here: () => (this.#hasCompared ? roster.here : 0),
      ask: (place) => this.#sync(place),
    });
  }

  #seal(sequence: number, network: KeyId): Member {
    const { id, incarnation, identity, role, facts } = this.#options;
    const all = facts();
    const isCallable = this.#callBacks.isCallable;
    this.#told = all;
    this.#toldMs = this.#nowMs();
    this.#sequence = sequence;
    this.#changed = true;
    const given = { permit: role === "orchestrator" ? undefined : this.#permit, leaving: this.#leaving };
    return seal({ id, incarnation, identity }, network, isCallable ? all : { ...all, routes: [] }, sequence, given);
  }

  #lookAtFacts(): void {
    const { gossip, networkKey } = this.#taking ?? {};
    if (gossip === undefined || networkKey === undefined || this.#leaving) return;
    const nowMs = this.#nowMs();
    const told = this.#told as Facts;
    const { facts: factsNow, role, identity } = this.#options;
    const facts = factsNow();
    // The network's key was replaced: others learn it by what it signs.
    const isHeir = role === "orchestrator" && !sameBytes(identity.publicKey, networkKey.shown.publicKey);
    if (isHeir) networkKey.follows(identity);
    const { load: before, ...settled } = told;
    const { load, ...settling } = facts;
    const { fleetLoadMs, loadMs } = this.#timings;
    const isLoadDue = nowMs - this.#toldMs >= Math.max(loadMs, fleetLoadMs * gossip.roster.here);
    const isBusier = Math.abs(before - load) >= 0.25;
    if (isHeir || JSON.stringify(settled) !== JSON.stringify(settling) || (isLoadDue && isBusier))
      this.#step({ kind: "changed", nowMs });
  }

  // Effects

  #step(event: MembershipEvent): void {
    const { gossip } = this.#taking ?? {};
    if (gossip === undefined || this.#ending.signal.aborted) return;
    for (const effect of gossip.step(event)) this.#perform(effect);
  }

  #perform(effect: MembershipEffect): void {
    switch (effect.kind) {
      case "wait":
        this.#cancelTick();
        this.#cancelTick = this.#options.world.timers.after(effect.delayMs, () =>
          this.#step({ kind: "tick", nowMs: this.#nowMs() }),
        );
        return;
      case "probe":
        return void this.#probe(effect);
      case "try":
        return void this.#try(effect);
      case "sync":
        return void this.#sync(routeTo(effect.with)).catch((error) => this.#asking.remind(effect.with, error));
      case "standing":
        this.#changed = true;
        this.#saveFirst();
        for (const listener of this.#listeners) listener(effect.member, effect.standing);
    }
  }

  async #probe(effect: MembershipEffect & { kind: "probe" }): Promise<void> {
    const { probe } = effect;
    try {
      const answer = await this.#asking.probe(effect);
      this.#step({ kind: "answered", nowMs: this.#nowMs(), probe, ...answer });
    } catch (error) {
      this.#step({ kind: "unanswered", nowMs: this.#nowMs(), probe });
      void this.#asking.remind(effect.to, error);
    }
  }

  async #try(effect: MembershipEffect & { kind: "try" }): Promise<void> {
    const found = await this.#asking.tryAgain(effect);
    this.#step({ kind: "tried", nowMs: this.#nowMs(), probe: effect.probe, ...found });
  }

  async #sync(address: string): Promise<void> {
    const { network, world } = this.#options;
    const { gossip, reader } = this.#taking ?? {};
    if (gossip === undefined || reader === undefined) return;
    const comparison = new Comparison(gossip.roster, () => gossip.self);
    const options = { timeoutMs: syncTimeoutMs, signal: this.#ending.signal };
    const callBack = this.#callBacks.isDue(this.#nowMs());
    let isFirst = true;
    for (let ask = comparison.first(); ; isFirst = false) {
      const request = { self: gossip.self.signed, ...syncToWire(ask), callBack: isFirst && callBack };
      const response = await network.call(address, GossipService.method.sync, request, options);
      const news = await reader.news(response.news);
      this.#hear(address, news);
      if (isFirst && callBack && this.#callBacks.answered(response.reached, this.#nowMs(), gossip.roster.here))
        this.#step({ kind: "changed", nowMs: this.#nowMs() });
      if (response.permit)
        this.admit(response.permit, shownFromWire(response.networkPublicKey, response.networkFormer));
      const next = comparison.next(ask, { ...answerFromWire(response, ask), news });
      if (next === undefined) break;
      ask = next;
    }
    this.#hasCompared = true;
    world.log("debug", `compared members with ${address}: ${gossip.roster.here} others are here`);
  }

  /** Whom a process met first, whoever called whom, it may need soon: the next save is half a minute away. */
  #saveFirst(): void {
    if (this.#hasMet || (this.#taking?.gossip.roster.here ?? 0) <= 1) return;
    this.#hasMet = true;
    this.#cancels.push(this.#options.world.timers.after(firstSaveMs, () => void this.#save(true)));
  }

  #hear(from: MemberId, news: readonly News[]): void {
    this.#step({ kind: "heard", nowMs: this.#nowMs(), from, news });
  }

  // Disk

  async #read(file: KeptFile | undefined) {
    const bytes = await file?.read().catch((error: unknown) => {
      this.#options.world.log("warn", `members are not remembered: ${messageOf(error)}`);
      return undefined;
    });
    return bytes && parseKept(bytes);
  }

  async #save(last: boolean): Promise<void> {
    const { file, world } = this.#options;
    const { gossip, networkKey } = this.#taking ?? {};
    if (file === undefined || gossip === undefined || networkKey === undefined || !(this.#changed || last)) return;
    // Nobody around says nothing about those who were.
    if (gossip.roster.size === 0 && this.#contacts.length > 0) return;
    this.#changed = false;
    const own = { network: networkKey.shown, permit: this.#permit, sequence: this.#sequence };
    await file
      .write(keptBytes(gossip.roster, own))
      .catch((error: unknown) => world.log("warn", `members are not remembered: ${messageOf(error)}`));
  }

  #reader(network: NetworkKey, known: (id: MemberId) => Member | undefined): Reader {
    const { world, keys } = this.#options;
    return new Reader({ ...keys, network }, world.timers, known, {
      nowSeconds: () => world.clock.wallMs() / 1_000 - skewSeconds,
      onRefused: (why) => {
        if (this.#refused.has(why) || this.#refused.size > 32) return;
        this.#refused.add(why);
        world.log("warn", `a record of a member was refused: ${why}`);
      },
    });
  }

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }
}

/** Until when a permit that is given now lasts. */
export function permitEnd(wallMs: number): number {
  return Math.floor(wallMs / 1_000) + permitSeconds;
}
