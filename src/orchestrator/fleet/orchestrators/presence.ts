// Which orchestrators are alive. Each counts up its own record once a second; one whose record stands still for a while
// is taken for dead, and at once if nobody listens at its address any more (sightings.ts). No clock is ever compared.

import { messageOf } from "../../../core/errors.ts";
import type { OrchestratorId } from "../../../core/ids.ts";
import { SystemService } from "../../../protocol/gen/dcnr/v1/system_pb.ts";
import type { Network } from "../../../protocol/network.ts";
import { withKey } from "../../../protocol/routes/address.ts";
import { isRefused } from "../../../protocol/streams/wire-errors.ts";
import { listItems } from "../../../store/records/update.ts";
import type { Context } from "../../context.ts";
import type { OrchestratorRecord } from "../../records/machines.ts";
import { key } from "../../records/store-keys.ts";
import type { Loads } from "../../serving/loads.ts";
import {
  afterOutage,
  afterRead,
  afterRefusal,
  isDead,
  isForgettable,
  nobodySeen,
  type Sighting,
  type Sightings,
  somebodyWent,
  worthCalling,
} from "./sightings.ts";

/** Who does not answer within this may only be slow. */
const probeTimeoutMs = 500;

export class Presence {
  readonly #context: Context;
  readonly #network: Network;
  #sightings: Sightings = nobodySeen;
  readonly #onDeath: () => void;
  /** Called after every look at the others. */
  onRead: () => Promise<void> = async () => {};
  /** What is asked of models here, told with every sign of life. */
  loads: () => Loads = () => ({ models: {}, replicas: {} });
  #beat = 0;
  readonly #relays: boolean;

  /** `relays`: whether this one relays tensors. */
  constructor(context: Context, network: Network, relays: boolean, onDeath: () => void) {
    this.#relays = relays;
    this.#context = context;
    this.#network = network;
    this.#onDeath = onDeath;
  }

  start(): void {
    // If the store is away now, the next rounds make up for it.
    this.#context.tasks.run("the first presence round", () => this.#round());
    this.#context.tasks.every("the presence round", this.#context.timings.presenceIntervalMs, () => this.#round());
  }

  /** Says goodbye, so that others take over at once. */
  async stop(): Promise<void> {
    const { mirror, id, incarnation } = this.#context;
    try {
      await mirror.remove(key.orchestrator(id), (record) => record.incarnation === incarnation);
    } catch (thrown) {
      this.#context.world.log("warn", `the orchestrator's record stays behind: ${messageOf(thrown)}`);
    }
  }

  alive(id: OrchestratorId, incarnation: string): boolean {
    if (id === this.#context.id) return incarnation === this.#context.incarnation;
    const seen = this.#sightings.byId.get(id);
    return seen !== undefined && seen.record.incarnation === incarnation && !this.#isDead(seen);
  }

  /**
   * How long ago the last sign of life of an orchestrator came whose process is gone for sure: its PNodes have known as
   * long. Undefined for one that may still run.
   */
  goneSinceMs(id: OrchestratorId, incarnation: string): number | undefined {
    const seen = this.#sightings.byId.get(id);
    if (!seen?.refuses || seen.record.incarnation !== incarnation) return undefined;
    return this.#context.world.clock.monotonicMs() - seen.changedMs;
  }

  /** Addresses of all that are alive, this one first, with the key that all of them show. */
  addresses(): string[] {
    const others = this.others().map(({ address }) => address);
    return [this.#keyed(this.#context.address), ...others.sort()];
  }

  others(): { readonly id: string; readonly address: string; readonly relay: boolean }[] {
    return Array.from(this.#sightings.byId.values())
      .filter((seen) => seen.record.id !== this.#context.id && !this.#isDead(seen))
      .map(({ record: { id, address, relay = false } }) => ({ id, address: this.#keyed(address), relay }));
  }

  /** All of them relay, some for tensors too. */
  relays(): { readonly address: string; readonly name: string; readonly tensors: boolean }[] {
    const { id, address } = this.#context;
    const own = { id: id as string, address: this.#keyed(address), relay: this.#relays };
    return [own, ...this.others()].map(({ id: name, relay: tensors, ...one }) => ({
      address: one.address,
      name,
      tensors,
    }));
  }

  /** What is asked of models at everybody who is alive. */
  allLoads(): Loads[] {
    const others = Array.from(this.#sightings.byId.values()).filter(
      (seen) => seen.record.id !== this.#context.id && !this.#isDead(seen),
    );
    return [this.loads(), ...others.flatMap(({ record }) => record.loads ?? [])];
  }

  #keyed(address: string): string {
    const { id } = this.#network;
    return id === undefined ? address : withKey(address, id);
  }

  ids(): string[] {
    return [this.#context.id as string, ...this.others().map(({ id }) => id)].sort();
  }

  #isDead(seen: Sighting): boolean {
    return isDead(this.#sightings, seen, this.#context.timings.presenceExpiryMs);
  }

  async #round(): Promise<void> {
    const { mirror, id, incarnation, address } = this.#context;
    try {
      const beat = ++this.#beat;
      const relay = this.#relays;
      const { models, replicas } = this.loads();
      const isAsked = Object.keys(models).length + Object.keys(replicas).length > 0;
      const loads = isAsked ? { loads: { models, replicas } } : {};
      await mirror.update(key.orchestrator(id), () => ({ id, incarnation, address, beat, relay, ...loads }), 1_000);
      await this.#read();
    } catch (thrown) {
      this.#sightings = afterOutage(this.#sightings);
      throw thrown;
    }
    await this.onRead();
  }

  async #read(): Promise<void> {
    const { mirror, world, id, timings } = this.#context;
    const before = this.#sightings;
    const nowMs = world.clock.monotonicMs();
    const found = await Array.fromAsync(listItems<OrchestratorRecord>(mirror.store, "orchestrator/"));
    this.#sightings = afterRead(before, found, nowMs);
    const others = Array.from(this.#sightings.byId.values()).filter(({ record }) => record.id !== id);
    await Promise.all(others.filter(worthCalling).map((seen) => this.#probe(seen)));
    for (const { record } of others.filter((seen) => isForgettable(this.#sightings, seen)))
      await mirror.remove(key.orchestrator(record.id), ({ beat }) => beat === record.beat);
    if (somebodyWent(before, this.#sightings, timings.presenceExpiryMs)) this.#onDeath();
  }

  async #probe(seen: Sighting): Promise<void> {
    const options = { timeoutMs: probeTimeoutMs, signal: this.#context.tasks.signal };
    try {
      await this.#network.call(this.#keyed(seen.record.address), SystemService.method.getVersion, {}, options);
    } catch (thrown) {
      if (isRefused(thrown)) this.#sightings = afterRefusal(this.#sightings, seen);
    }
  }
}
