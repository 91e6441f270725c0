// One long-lived stream to a peer: deliveries and asks go out in order, receipts and answers come back. When it
// breaks, what was under way is given up: senders retain it, and whoever misses it asks.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { sleep, type World } from "../core/world.ts";
import {
  AskOutcome,
  type ExchangeRequestSchema,
  type ExchangeResponse,
  ExchangeService,
  Verdict,
} from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { type Channel, chunkBytesMax, type Network, protocolMajor } from "../protocol/network.ts";
import { keyOf, type MessageName } from "../vnode/names.ts";
import { Backoff } from "./backoff.ts";
import type { Bandwidth } from "./bandwidth.ts";
import { toDataType, toProtoName } from "./names.ts";
import type { Timings } from "./options.ts";
import type { OutgoingTensor } from "./receiver.ts";
import { SilentPeer } from "./silent-peer.ts";
import type { Tasks } from "./tasks.ts";

type Request = MessageInitShape<typeof ExchangeRequestSchema>;

export interface Parcel {
  readonly session: string;
  readonly from: string;
  readonly epoch: number;
  readonly message: OutgoingTensor;
}

export type DeliveryOutcome = "stored" | "dropped" | "wait" | "refused" | "moved" | "broken";

export interface Question {
  readonly session: string;
  /** The VNode that asks. */
  readonly to: string;
  /** Where its PNode listens. */
  readonly address: string;
  readonly from: string;
  readonly names: readonly MessageName[];
}

export type QuestionOutcome = "coming" | "gone" | "moved" | "broken";

type Job =
  | {
      readonly kind: "deliver";
      readonly parcel: Parcel;
      readonly done: (outcome: DeliveryOutcome, why: string) => void;
    }
  | { readonly kind: "ask"; readonly question: Question; readonly done: (outcome: QuestionOutcome) => void };

export interface LinkOptions {
  readonly address: string;
  readonly pnode: string;
  readonly network: Network;
  readonly world: World;
  readonly timings: Timings;
  readonly tasks: Tasks;
  readonly bandwidth: Bandwidth;
  readonly signal: AbortSignal;
}

/** What waits beyond this is given up; whoever misses it asks. */
const jobsMax = 4_096;

export class Link {
  readonly #options: LinkOptions;
  readonly #backoff: Backoff;
  #queue: Job[] = [];
  readonly #unanswered = new Map<bigint, { job: Job; sentMs: number }>();
  #channel: Channel<Request, ExchangeResponse> | undefined;
  #nextId = 0n;
  /** Streams that have ended so far. */
  #streams = 0;
  /** By parcel: for ever while it waits or is written, then a while until its receipt has to be here. */
  readonly #onTheWayUntilMs = new Map<string, number>();
  #pumping = false;
  #failed = false;
  readonly #peer: SilentPeer;
  /** Smoothed; 0 until measured. */
  latencyMs = 0;
  bytesPerSecond = 0;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#peer = new SilentPeer(options.world.clock);
    this.#backoff = new Backoff(options.timings.retryMinMs, options.timings.retryMaxMs, options.world.chance);
  }

  /** What is on its way already is not sent once more, however often it is asked for: large tensors take their time. */
  deliver(parcel: Parcel, done: (outcome: DeliveryOutcome, why: string) => void): void {
    const key = keyOfParcel(parcel);
    if (this.#options.world.clock.monotonicMs() < (this.#onTheWayUntilMs.get(key) ?? 0)) {
      done("dropped", "");
      return;
    }
    this.#onTheWayUntilMs.set(key, Number.POSITIVE_INFINITY);
    const ended = (outcome: DeliveryOutcome, why: string) => {
      this.#onTheWayUntilMs.delete(key);
      done(outcome, why);
    };
    this.#queue.push({ kind: "deliver", parcel, done: ended });
    this.#pump();
  }

  /** Goes before waiting deliveries: somebody stands still. */
  ask(question: Question, done: (outcome: QuestionOutcome) => void): void {
    this.#queue.unshift({ kind: "ask", question, done });
    this.#pump();
  }

  get failingMs(): number {
    return this.#peer.failingMs;
  }

  close(): void {
    this.#break();
  }

  #pump(): void {
    this.#peer.called();
    while (this.#queue.length > jobsMax) giveUp(this.#queue.pop() as Job);
    if (this.#pumping) return;
    this.#pumping = true;
    this.#options.tasks.run(`link to ${this.#options.address}`, () => this.#run());
  }

  async #run(): Promise<void> {
    const { signal } = this.#options;
    try {
      for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
        if (signal.aborted) return;
        const streams = this.#streams;
        try {
          await this.#perform(job);
        } catch {
          for (const [id, sent] of this.#unanswered) if (sent.job === job) this.#unanswered.delete(id);
          giveUp(job);
          // The reader may have noticed first; what was queued since then deserves a new stream.
          if (streams === this.#streams) this.#break();
        }
      }
    } finally {
      this.#pumping = false;
      if (this.#queue.length > 0 && !signal.aborted) this.#pump();
    }
  }

  async #perform(job: Job): Promise<void> {
    const id = this.#nextId++;
    if (job.kind === "ask") {
      const channel = await this.#connected();
      this.#unanswered.set(id, { job, sentMs: this.#options.world.clock.monotonicMs() });
      const { session, names, ...rest } = job.question;
      const named = names.map((name) => toProtoName(session, name));
      await channel.send({ event: { case: "ask", value: { id, ...rest, names: named } } });
      return;
    }
    const { parcel } = job;
    const { name, hash, to, payload } = parcel.message;
    let tensor: Awaited<ReturnType<typeof payload.load>>;
    try {
      tensor = await payload.load();
    } catch {
      // It was collected while it waited: then nobody needs it any more.
      job.done("dropped", "");
      return;
    }
    await this.#options.bandwidth.take(tensor.bytes.byteLength, this.#options.signal);
    const channel = await this.#connected();
    this.#unanswered.set(id, { job, sentMs: this.#options.world.clock.monotonicMs() });
    const whole = tensor.bytes.byteLength <= chunkBytesMax;
    const delivery = {
      id,
      name: toProtoName(parcel.session, name),
      to,
      from: parcel.from,
      epoch: BigInt(parcel.epoch),
      dtype: toDataType(tensor.dtype),
      shape: [...tensor.shape],
      bytes: BigInt(tensor.bytes.byteLength),
      hash,
      data: whole ? tensor.bytes : new Uint8Array(0),
    };
    await channel.send({ event: { case: "delivery", value: delivery } });
    for (let at = 0; !whole && at < tensor.bytes.byteLength; at += chunkBytesMax)
      await channel.send({
        event: { case: "chunk", value: { id, data: tensor.bytes.subarray(at, at + chunkBytesMax) } },
      });
    // The receipt may have come by now.
    const { world, timings } = this.#options;
    if (this.#unanswered.has(id))
      this.#onTheWayUntilMs.set(keyOfParcel(parcel), world.clock.monotonicMs() + timings.askMaxMs);
  }

  async #connected(): Promise<Channel<Request, ExchangeResponse>> {
    if (this.#channel !== undefined) return this.#channel;
    const { network, address, pnode, tasks, signal, world } = this.#options;
    // A peer that has just refused or vanished is not called again at once.
    if (this.#failed) await sleep(world.timers, this.#backoff.next(), signal);
    const channel = network.open(address, ExchangeService.method.exchange, { signal });
    this.#channel = channel;
    tasks.run(`answers from ${address}`, () => this.#read(channel));
    await channel.send({ event: { case: "hello", value: { protocolMajor, pnode } } });
    return channel;
  }

  async #read(channel: Channel<Request, ExchangeResponse>): Promise<void> {
    try {
      for await (const { event } of channel.incoming) {
        this.#failed = false;
        this.#peer.answered();
        this.#backoff.reset();
        if (event.case === "receipt") this.#receipt(event.value.id, event.value.verdict, event.value.detail);
        if (event.case === "answer") this.#answer(event.value.id, event.value.outcome);
      }
    } catch {
      // A broken stream is like a closed one: what is missing is asked for.
    }
    if (this.#channel === channel) this.#break();
  }

  #receipt(id: bigint, verdict: Verdict, detail: string): void {
    const sent = this.#unanswered.get(id);
    if (sent?.job.kind !== "deliver") return;
    this.#unanswered.delete(id);
    this.#measure(sent.sentMs, sent.job.parcel.message.payload.length);
    sent.job.done(outcomes[verdict] ?? "refused", detail);
  }

  #answer(id: bigint, outcome: AskOutcome): void {
    const sent = this.#unanswered.get(id);
    if (sent?.job.kind !== "ask") return;
    this.#unanswered.delete(id);
    const known = { [AskOutcome.COMING]: "coming", [AskOutcome.GONE]: "gone", [AskOutcome.MOVED]: "moved" } as const;
    sent.job.done(known[outcome as keyof typeof known] ?? "moved");
  }

  #measure(sentMs: number, bytes: number): void {
    const tookMs = this.#options.world.clock.monotonicMs() - sentMs;
    const smooth = (old: number, value: number) => (old === 0 ? value : old + 0.1 * (value - old));
    if (bytes <= smallBytes) this.latencyMs = smooth(this.latencyMs, tookMs);
    else if (tookMs > 0) this.bytesPerSecond = smooth(this.bytesPerSecond, (bytes / tookMs) * 1_000);
  }

  #break(): void {
    const channel = this.#channel;
    this.#channel = undefined;
    this.#failed = true;
    this.#peer.broke();
    this.#streams++;
    channel?.close();
    const jobs = [...[...this.#unanswered.values()].map(({ job }) => job), ...this.#queue];
    this.#unanswered.clear();
    this.#queue = [];
    for (const job of jobs) giveUp(job);
  }
}

/** Receipts of smaller tensors tell latency, those of larger ones throughput. */
const smallBytes = 16 << 10;

const outcomes: Readonly<Record<number, DeliveryOutcome>> = {
  [Verdict.STORED]: "stored",
  [Verdict.DROPPED]: "dropped",
  [Verdict.WAIT]: "wait",
  [Verdict.REFUSED]: "refused",
  [Verdict.MOVED]: "moved",
};

function keyOfParcel({ session, epoch, message }: Parcel): string {
  return `${session} ${message.to} ${epoch} ${keyOf(message.name)} ${message.hash}`;
}

function giveUp(job: Job): void {
  if (job.kind === "ask") job.done("broken");
  else job.done("broken", "");
}
