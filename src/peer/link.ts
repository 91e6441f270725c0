// The sending end of the way to one peer: one long-lived stream, opened when first needed and again after it broke.
// Parcels and asks go out, receipts and answers come back. When it breaks, what was under way is given up: senders keep
// what others may need, and whoever misses something asks.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Bandwidth } from "../core/bandwidth.ts";
import { fail } from "../core/errors.ts";
import { Backoff } from "../core/retry.ts";
import type { Tasks } from "../core/tasks.ts";
import { sleep, type World } from "../core/world.ts";
import {
  AskOutcome,
  type ExchangeRequestSchema,
  type ExchangeResponse,
  ExchangeService,
  Verdict,
} from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { type Channel, chunkBytesMax, type Network, protocolMajor } from "../protocol/network.ts";
import { withoutKey } from "../protocol/routes/address.ts";
import { type Ask, type AskAnswer, giveUp, type Job, Jobs, type Note, once } from "./jobs.ts";
import { Meter } from "./meter.ts";
import type { Opened, Outcome, Parcel } from "./parcel.ts";
import { type LifeSigns, PeerWatch } from "./peer-watch.ts";
import { SilentPeer } from "./silent-peer.ts";
import { toDataType } from "./travel-types.ts";

type Request = MessageInitShape<typeof ExchangeRequestSchema>;
type Event = NonNullable<Request["event"]>;
type Answering = Channel<Request, ExchangeResponse>;

export interface LinkTimings {
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  /** A parcel whose receipt has not come for so long may be sent once more. */
  readonly resendMs: number;
}

export interface LinkOptions {
  /** Names the peer's key too. */
  readonly address: string;
  readonly network: Network;
  readonly world: World;
  readonly timings: LinkTimings;
  readonly tasks: Tasks;
  readonly bandwidth: Bandwidth;
  readonly signal: AbortSignal;
}

export class Link {
  readonly #options: LinkOptions;
  readonly #backoff: Backoff;
  readonly #meter = new Meter();
  readonly #peer: SilentPeer;
  readonly #watch: PeerWatch;
  readonly #jobs = new Jobs();
  readonly #unanswered = new Map<bigint, Exclude<Job, { kind: "note" }>>();
  /** Of parcels on their way: their bytes must not change before the receipt is here. */
  readonly #lent = new Map<bigint, Opened>();
  /** By parcel: for ever while it waits or is written, then a while until its receipt has to be here. */
  readonly #onTheWayUntilMs = new Map<string, number>();
  #channel: Answering | undefined;
  #nextId = 0n;
  /** Streams that have ended so far. */
  #streams = 0;
  /** Of the task that sends one job after the other; 0 while there is none. */
  #pump = 0;
  #pumps = 0;
  /** When a job, or a piece of one, was last done, or there began to be jobs. */
  #movedMs = 0;
  #throttled = false;
  /** Of the pump. */
  #present: Job | undefined;
  #failed = false;
  /** Wakes whatever waits, so that it lets go. Once it is over nothing is taken and no stream opened. */
  readonly #ending = new AbortController();
  readonly #close = () => this.close();

  constructor(options: LinkOptions) {
    const { timings, world, signal } = options;
    this.#options = options;
    if (signal.aborted) this.#ending.abort();
    else signal.addEventListener("abort", this.#close, { once: true });
    this.#peer = new SilentPeer(world.clock);
    this.#backoff = new Backoff(timings.retryMinMs, timings.retryMaxMs, world.chance);
    const signs: LifeSigns = {
      isBusy: () => this.#unanswered.size > 0 || this.#pump !== 0,
      stillMs: () => (this.#pump === 0 || this.#throttled ? 0 : this.#nowMs() - this.#movedMs),
      ping: (id) => this.#tell({ case: "ping", value: { id } }),
      lost: () => this.#abandon(),
    };
    this.#watch = new PeerWatch(world, this.#meter, signs);
  }

  /** What is on its way already is not sent once more, however often it is asked for: large tensors take their time. */
  deliver(parcel: Parcel, done: (outcome: Outcome, why: string) => void): void {
    const { key } = parcel;
    if (this.#nowMs() < (this.#onTheWayUntilMs.get(key) ?? 0)) {
      done("dropped", "");
      return;
    }
    this.#onTheWayUntilMs.set(key, Number.POSITIVE_INFINITY);
    const ended = once((outcome: Outcome, why: string) => {
      this.#onTheWayUntilMs.delete(key);
      done(outcome, why);
    });
    this.#enqueue({ kind: "parcel", parcel, done: ended }, parcel.urgent);
  }

  /** Somebody stands still until it is answered. */
  ask(ask: Ask, done: (answer: AskAnswer) => void): void {
    this.#enqueue({ kind: "ask", ask, done: once(done) }, true);
  }

  /** Lost with the stream, if that breaks. */
  note(note: Note): void {
    this.#enqueue({ kind: "note", note }, true);
  }

  get failingMs(): number {
    return this.#peer.failingMs;
  }

  /** Both 0 until measured. */
  get measured(): { readonly latencyMs: number; readonly bytesPerSecond: number } {
    const { latencyMs, bytesPerSecond } = this.#meter;
    return { latencyMs, bytesPerSecond };
  }

  /**
   * Somebody has waited for long for what goes this way, or for an answer to it: all of it is given up, to be asked for again over
   * a new stream. What is on its way and may still arrive in its time is left alone.
   */
  renew(): void {
    if (this.#channel === undefined || this.#throttled) return;
    const nowMs = this.#nowMs();
    const { nextReceipt } = this.#meter;
    const mayArrive = nextReceipt && nowMs - nextReceipt.sinceMs <= this.#watch.patienceMs(nextReceipt.bytes);
    const isMoving = this.#pump !== 0 && nowMs - this.#movedMs <= this.#watch.patienceMs(0);
    if (!mayArrive && !isMoving) this.#abandon();
  }

  close(): void {
    this.#options.signal.removeEventListener("abort", this.#close);
    this.#ending.abort();
    this.#abandon();
  }

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }

  #enqueue(job: Job, urgent: boolean): void {
    if (this.#ending.signal.aborted) {
      giveUp(job);
      return;
    }
    this.#peer.called();
    this.#jobs.add(job, urgent);
    this.#begin();
  }

  #begin(): void {
    if (this.#pump !== 0) return;
    const pump = ++this.#pumps;
    this.#pump = pump;
    this.#moved();
    this.#watch.begin();
    this.#options.tasks.run(`link to ${this.#options.address}`, () => this.#run(pump));
  }

  async #run(pump: number): Promise<void> {
    this.#peer.waiting = true;
    try {
      while (this.#pump === pump) {
        const job = this.#jobs.next();
        if (job === undefined) return;
        this.#present = job;
        await this.#attempt(job);
        if (this.#pump === pump) this.#moved();
      }
    } finally {
      // One that was given up while it stood still has been followed by another.
      if (this.#pump === pump) {
        this.#peer.waiting = false;
        this.#present = undefined;
        this.#pump = 0;
      }
    }
  }

  #moved(): void {
    this.#movedMs = this.#nowMs();
  }

  async #attempt(job: Job): Promise<void> {
    const streams = this.#streams;
    const id = this.#nextId++;
    try {
      await this.#perform(id, job);
    } catch {
      this.#forget(id);
      giveUp(job);
      // The reader may have noticed first; what was queued since then deserves a new stream.
      if (streams === this.#streams) this.#break();
    }
  }

  async #perform(id: bigint, job: Job): Promise<void> {
    switch (job.kind) {
      case "note": {
        const channel = await this.#connected();
        await channel.send({ event: { case: "lost", value: job.note } });
        return;
      }
      case "ask": {
        const channel = await this.#connected();
        this.#expect(id, job);
        await channel.send({ event: { case: "ask", value: { ...job.ask, id } } });
        return;
      }
      case "parcel":
        return this.#send(id, job);
    }
  }

  async #send(id: bigint, job: Job & { kind: "parcel" }): Promise<void> {
    const { parcel } = job;
    let opened: Opened;
    try {
      opened = await parcel.open();
    } catch {
      // It was collected or overtaken while it waited: then nobody needs it any more.
      job.done("dropped", "");
      return;
    }
    this.#lent.set(id, opened);
    const { dtype, shape, bytes } = opened.content;
    const whole = bytes.byteLength <= chunkBytesMax;
    if (whole) await this.#take(bytes.byteLength);
    const channel = await this.#connected();
    this.#expect(id, job);
    this.#meter.sent(id, bytes.byteLength, this.#nowMs());
    const delivery = {
      ...parcel.label,
      ...opened.proof,
      ...{ id, to: parcel.to, from: parcel.from, epoch: BigInt(parcel.epoch), hash: opened.hash },
      ...{ dtype: toDataType(dtype), shape: [...shape], bytes: BigInt(bytes.byteLength) },
      data: whole ? bytes : new Uint8Array(0),
    };
    await channel.send({ event: { case: "delivery", value: delivery } });
    if (!whole) await this.#sendChunks(channel, id, bytes);
    // The receipt may have come by now.
    if (this.#unanswered.has(id)) this.#onTheWayUntilMs.set(parcel.key, this.#nowMs() + this.#options.timings.resendMs);
  }

  async #sendChunks(channel: Answering, id: bigint, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.byteLength; at += chunkBytesMax) {
      // A receipt before the end says that the rest is not wanted.
      if (!this.#unanswered.has(id)) return;
      const data = bytes.subarray(at, at + chunkBytesMax);
      await this.#take(data.byteLength);
      for (let job = this.#jobs.nextUrgent(); job !== undefined; job = this.#jobs.nextUrgent())
        await this.#attempt(job);
      await channel.send({ event: { case: "chunk", value: { id, data } } });
      this.#moved();
    }
  }

  /** Waiting for what the owner lends of the line is no standstill. */
  async #take(bytes: number): Promise<void> {
    this.#throttled = true;
    await this.#options.bandwidth.take(bytes, this.#ending.signal);
    this.#throttled = false;
    this.#moved();
  }

  #expect(id: bigint, job: Exclude<Job, { kind: "note" }>): void {
    this.#unanswered.set(id, job);
    this.#watch.begin();
  }

  async #connected(): Promise<Answering> {
    const { network, address, tasks, world } = this.#options;
    const { signal } = this.#ending;
    // A peer that has just refused or vanished is not called again at once.
    if (this.#channel === undefined && this.#failed) await sleep(world.timers, this.#backoff.next(), signal);
    if (signal.aborted) fail("cancelled", `the link to ${withoutKey(address)} was let go`);
    if (this.#channel !== undefined) return this.#channel;
    const channel = network.open(address, ExchangeService.method.exchange, { signal });
    this.#channel = channel;
    tasks.run(`answers from ${withoutKey(address)}`, () => this.#read(channel));
    const greeted = channel.send({ event: { case: "hello", value: { protocolMajor } } });
    this.#watch.opened();
    await greeted;
    return channel;
  }

  /** False if there is no stream. */
  #tell(event: Event): boolean {
    // A stream that breaks is noticed where it is read.
    this.#channel?.send({ event } as Request).catch(() => {});
    return this.#channel !== undefined;
  }

  async #read(channel: Answering): Promise<void> {
    try {
      for await (const { event } of channel.incoming) {
        if (this.#channel !== channel) return;
        this.#failed = false;
        this.#peer.answered();
        this.#backoff.reset();
        if (event.case === "receipt") this.#receipt(event.value.id, event.value.verdict, event.value.detail);
        if (event.case === "answer") this.#answer(event.value.id, event.value.outcome);
        if (event.case === "pong") this.#watch.pong(event.value.id);
      }
    } catch {
      // A broken stream is like a closed one: what is missing is asked for.
    }
    if (this.#channel === channel) this.#break();
  }

  #receipt(id: bigint, verdict: Verdict, detail: string): void {
    const job = this.#unanswered.get(id);
    if (job?.kind !== "parcel") return;
    this.#meter.receipt(id, this.#nowMs());
    this.#forget(id);
    job.done(outcomes[verdict] ?? "refused", detail);
  }

  #answer(id: bigint, outcome: AskOutcome): void {
    const job = this.#unanswered.get(id);
    if (job?.kind !== "ask") return;
    this.#forget(id);
    job.done(answers[outcome] ?? "moved");
  }

  #forget(id: bigint): void {
    this.#unanswered.delete(id);
    this.#lent.get(id)?.release();
    this.#lent.delete(id);
  }

  /** Whatever holds the present job up is left to itself: others must not wait behind it. */
  #abandon(): void {
    const job = this.#present;
    this.#pump = 0;
    this.#present = undefined;
    this.#throttled = false;
    if (job !== undefined) giveUp(job);
    this.#break();
  }

  #break(): void {
    const channel = this.#channel;
    this.#channel = undefined;
    this.#failed = true;
    this.#peer.broke();
    this.#watch.stop();
    this.#meter.broke();
    this.#streams++;
    channel?.close();
    const jobs = [...this.#unanswered.values(), ...this.#jobs.takeAll()];
    for (const id of [...this.#unanswered.keys()]) this.#forget(id);
    for (const job of jobs) giveUp(job);
  }
}

const outcomes: Readonly<Record<number, Outcome>> = {
  [Verdict.STORED]: "stored",
  [Verdict.DROPPED]: "dropped",
  [Verdict.WAIT]: "wait",
  [Verdict.REFUSED]: "refused",
  [Verdict.MOVED]: "moved",
};

const answers: Readonly<Record<number, AskAnswer>> = {
  [AskOutcome.COMING]: "coming",
  [AskOutcome.GONE]: "gone",
  [AskOutcome.MOVED]: "moved",
};
