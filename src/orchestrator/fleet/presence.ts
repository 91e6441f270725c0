// Which orchestrators are alive. Each counts up its own record once a second; one whose record stands still
// for a while, as seen on the reader's own monotonic clock, is taken for dead, and at once if nobody listens at its
// address any more. No clock is ever compared.

import { messageOf } from "../../core/errors.ts";
import type { OrchestratorId } from "../../core/ids.ts";
import { withKey } from "../../protocol/address.ts";
import { SystemService } from "../../protocol/gen/dcnr/v1/system_pb.ts";
import type { Network } from "../../protocol/network.ts";
import { isRefused } from "../../protocol/wire-errors.ts";
import { listItems } from "../../store/update.ts";
import type { Context } from "../context.ts";
import { key, type OrchestratorRecord } from "../records/records.ts";

interface Seen {
  readonly record: OrchestratorRecord;
  readonly version: number;
  readonly changedMs: number;
  /** Reads since then; a clock that leaps ahead makes nobody look dead. */
  readonly unchangedReads: number;
  /** Its process is gone: connections to it are refused. */
  readonly refuses: boolean;
}

const unchangedReadsLeast = 2;

/** Who does not answer within this may only be slow. */
const probeTimeoutMs = 500;
const probesMax = 5;

/** Records of orchestrators that died this long ago are removed by whoever notices. */
const forgetMs = 600_000;

export class Presence {
  readonly #context: Context;
  readonly #network: Network;
  readonly #seen = new Map<string, Seen>();
  readonly #onDeath: () => void;
  /** Called after every look at the others. */
  onRead: () => Promise<void> = async () => {};
  #readMs = Number.NEGATIVE_INFINITY;
  #interrupted = false;
  #beat = 0;

  constructor(context: Context, network: Network, onDeath: () => void) {
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
    const seen = this.#seen.get(id);
    return seen !== undefined && seen.record.incarnation === incarnation && !this.#expired(seen);
  }

  /**
   * How long ago the last sign of life of an orchestrator came whose process is gone for sure: its PNodes have known as
   * long. Undefined for one that may still run.
   */
  goneSinceMs(id: OrchestratorId, incarnation: string): number | undefined {
    const seen = this.#seen.get(id);
    if (!seen?.refuses || seen.record.incarnation !== incarnation) return undefined;
    return this.#context.world.clock.monotonicMs() - seen.changedMs;
  }

  /** Addresses of all that are alive, this one first, with the key that all of them show. */
  addresses(): string[] {
    const others = Array.from(this.#seen.values()).filter(
      (seen) => seen.record.id !== this.#context.id && !this.#expired(seen),
    );
    return [this.#context.address, ...others.map((seen) => seen.record.address).sort()].map((one) => this.#keyed(one));
  }

  others(): { readonly id: string; readonly address: string }[] {
    return Array.from(this.#seen.values())
      .filter((seen) => seen.record.id !== this.#context.id && !this.#expired(seen))
      .map(({ record: { id, address } }) => ({ id, address: this.#keyed(address) }));
  }

  #keyed(address: string): string {
    const { id } = this.#network;
    return id === undefined ? address : withKey(address, id);
  }

  ids(): string[] {
    const others = Array.from(this.#seen.values()).filter((seen) => !this.#expired(seen));
    return Array.from(new Set([this.#context.id as string, ...others.map((seen) => seen.record.id as string)])).sort();
  }

  /** Only time in which the store could be read counts: an outage makes nobody look dead. */
  #expired(seen: Seen): boolean {
    if (seen.refuses) return true;
    const standsStillMs = this.#readMs - seen.changedMs;
    return standsStillMs >= this.#context.timings.presenceExpiryMs && seen.unchangedReads >= unchangedReadsLeast;
  }

  async #round(): Promise<void> {
    const { mirror, id, incarnation, address } = this.#context;
    try {
      const beat = ++this.#beat;
      await mirror.update(key.orchestrator(id), () => ({ id, incarnation, address, beat }), 1_000);
      await this.#read();
    } catch (thrown) {
      this.#interrupted = true;
      throw thrown;
    }
    await this.onRead();
  }

  async #read(): Promise<void> {
    const { mirror, world, id } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const dead = this.#deadIds();
    const found = new Set<string>();
    for await (const { record, version } of listItems<OrchestratorRecord>(mirror.store, "orchestrator/")) {
      found.add(record.id);
      const before = this.#seen.get(record.id);
      const changed = before === undefined || before.version !== version || this.#interrupted;
      const stands = changed
        ? { changedMs: nowMs, unchangedReads: 0, refuses: false }
        : { ...before, unchangedReads: before.unchangedReads + 1 };
      this.#seen.set(record.id, { ...stands, record, version });
    }
    for (const known of this.#seen.keys()) if (!found.has(known)) this.#seen.delete(known);
    this.#interrupted = false;
    this.#readMs = nowMs;
    await Promise.all(Array.from(this.#seen.values(), (seen) => this.#probe(seen)));
    for (const [other, seen] of this.#seen) {
      if (other === id || nowMs - seen.changedMs < forgetMs) continue;
      await mirror.remove(key.orchestrator(other), (record) => record.beat === seen.record.beat);
    }
    const deadNow = this.#deadIds();
    if (deadNow.some((one) => !dead.includes(one)) || found.size < dead.length) this.#onDeath();
  }

  /** One whose record stands still is called: a refusal spares the wait. */
  async #probe(seen: Seen): Promise<void> {
    const { id, address } = seen.record;
    const { refuses, unchangedReads } = seen;
    if (id === this.#context.id || refuses || unchangedReads < 1 || unchangedReads > probesMax) return;
    const options = { timeoutMs: probeTimeoutMs, signal: this.#context.tasks.signal };
    try {
      await this.#network.call(this.#keyed(address), SystemService.method.getVersion, {}, options);
    } catch (thrown) {
      if (isRefused(thrown) && this.#seen.get(id) === seen) this.#seen.set(id, { ...seen, refuses: true });
    }
  }

  #deadIds(): string[] {
    return Array.from(this.#seen)
      .filter(([, seen]) => this.#expired(seen))
      .map(([other]) => other);
  }
}
